#include "cli/health/run.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdlib>
#include <optional>
#include <string_view>
#include <thread>

#include "cli/terminal/common_options.h"
#include "cli/terminal/terminal.h"
#include "health/output/finding_report.h"
#include "health/verdict/node_verdict.h"
#include "launcher/os/child.h"
#include "scheduler/text/number.h"
#include "scheduler/text/spelling.h"
#include "scheduler/text/text.h"

namespace muster {

namespace {

using Clock = std::chrono::steady_clock;

constexpr int not_proven = 1;
// Slurm kills its health check program after a minute; scontrol is called twice.
constexpr Milliseconds scontrol_limit{5'000};
constexpr NodeReaderLimits health_limits{Milliseconds{5'000}, Milliseconds{10'000},
                                         Milliseconds{15'000}, Milliseconds{500}};
// Of a hook that a job waits for.
constexpr NodeReaderLimits quick_limits{Milliseconds{1'500}, Milliseconds{3'000},
                                        Milliseconds{3'000}, Milliseconds{200}};
constexpr int slurm_looks_most = 3;

// Whatever hangs, the answer comes: the node is not proven to be sound.
void answer_at_deadline() {
  std::signal(SIGALRM, [](int) {
    constexpr std::string_view sentence = "muster: no check of the node ended in time\n";
    if (::write(STDERR_FILENO, sentence.data(), sentence.size()) < 0) ::_exit(not_proven);
    ::_exit(not_proven);
  });
  const auto limit = std::chrono::duration_cast<Seconds>(prolog_deadline - prolog_margin);
  ::alarm(static_cast<unsigned>(limit.count()));
}

// Of a job that had the whole node: nothing of its user may be left.
std::set<std::int64_t> ended_users(bool is_idle) {
  const std::int64_t uid = read_integer(environment("SLURM_JOB_UID")).value_or(0);
  // Services run as root.
  return is_idle && uid > 0 ? std::set{uid} : std::set<std::int64_t>{};
}

int act(const PreparedLook& ready, const std::string& name, const HealthRunOptions& options,
        const CommonOptions& common) {
  const NodeVerdict verdict = ready.look->verdict();
  const int code = slurm_exit_code(verdict);
  const std::string shown = or_end(
      run_within({options.scontrol, "show", "node", "-o", name}, scontrol_limit), not_proven);
  const SlurmNode node = or_end(parse_slurm_node(shown, name), not_proven);
  auto action = slurm_action(node, ready.look->streaks(), ready.look->rules(), verdict);
  if (!action) {
    if (node.is_drained) notice(name + " stays drained: " + node.reason, common);
    return code;
  }
  action->front() = options.scontrol;
  or_end(run_within(*action, scontrol_limit), not_proven);
  notice(verdict.is_drained() ? name + " is drained: " + verdict.reason()
                              : name + " resumed: its fault is resolved",
         common);
  return code;
}

int health_hook(const HealthRunOptions& options, const CommonOptions& common) {
  const std::string name = environment("SLURMD_NODENAME");
  if (!is_slurm_node_name(name)) {
    throw VerbEnd(usage_error, name.empty()
                                   ? "SLURMD_NODENAME is not set: Slurm did not start this"
                                   : "SLURMD_NODENAME: '" + name + "' is no name of one node");
  }
  LookWanted wanted;
  wanted.phase = Phase::periodic;
  wanted.limits = health_limits;
  const PreparedLook ready = prepare_look(options, wanted, common);
  look_until_sure(*ready.look, options.quick ? 1 : slurm_looks_most);
  keep_results(ready, options, common);
  return act(ready, name, options, common);
}

PrologStep next_step(const NodeLook& look, Clock::time_point began) {
  const NodeVerdict verdict = look.verdict();
  const auto age = look.verdict_age();
  PrologQuestion question;
  question.verdict = age ? &verdict : nullptr;
  question.verdict_age = age.value_or(Milliseconds{0});
  question.waited = std::chrono::duration_cast<Milliseconds>(Clock::now() - began);
  return next_prolog_step(question);
}

void say(const PrologAnswer& answer, const CommonOptions& common) {
  if (const auto* spare = std::get_if<TakeSpare>(&answer)) print_error(spare->why, common);
  if (const auto* no = std::get_if<RefuseNode>(&answer)) print_error(no->reason, common);
}

int prolog_hook(const HealthRunOptions& options, const CommonOptions& common) {
  const auto began = Clock::now();
  answer_at_deadline();
  const PreparedLook ready =
      prepare_look(options, {Phase::prolog, quick_limits, true, false, {}, not_proven}, common);
  while (true) {
    const PrologStep step = next_step(*ready.look, began);
    if (const auto* answer = std::get_if<PrologAnswer>(&step)) {
      keep_results(ready, options, common);
      say(*answer, common);
      return slurm_exit_code(*answer);
    }
    if (const auto* run = std::get_if<RunQuick>(&step)) std::this_thread::sleep_for(run->after);
    ready.look->look();
  }
}

int epilog_hook(const HealthRunOptions& options, const CommonOptions& common) {
  answer_at_deadline();
  const PreparedLook ready = prepare_look(
      options, {Phase::epilog, quick_limits, true, false, ended_users(options.idle), not_proven},
      common);
  look_until_sure(*ready.look, options.quick ? 1 : slurm_looks_most);
  keep_results(ready, options, common);
  const NodeVerdict verdict = ready.look->verdict();
  if (verdict.is_drained()) print_error(verdict.reason(), common);
  return slurm_exit_code(verdict);
}

// What follows ` KEY=`, to the end of the line.
std::optional<std::string_view> behind(std::string_view line, std::string_view key) {
  const std::string wanted = std::string(key) + "=";
  for (std::size_t at = line.find(wanted); at != line.npos; at = line.find(wanted, at + 1)) {
    if (at == 0 || line[at - 1] == ' ') return line.substr(at + wanted.size());
  }
  return std::nullopt;
}

std::optional<std::string_view> word_behind(std::string_view line, std::string_view key) {
  const auto rest = behind(line, key);
  return rest ? std::optional(rest->substr(0, rest->find(' '))) : std::nullopt;
}

// "IDLE+DRAIN", "DOWN*+DRAIN", "MIXED+DRAINING": one of the words, whatever mark is behind it.
bool is_drain_state(std::string_view state) {
  constexpr std::array<std::string_view, 3> drains{"DRAIN", "DRAINED", "DRAINING"};
  while (!state.empty()) {
    std::string_view word = take_until(state, '+');
    while (!word.empty() && (word.back() < 'A' || word.back() > 'Z')) word.remove_suffix(1);
    if (std::ranges::find(drains, word) != drains.end()) return true;
  }
  return false;
}

// The text goes to the end of the line, or to the mark ` [user@time]` when more fields follow it.
std::string reason_of_line(std::string_view line) {
  const auto rest = behind(line, "Reason");
  if (!rest) return {};
  const std::size_t mark = rest->find(" [");
  const std::size_t end = mark == rest->npos ? rest->npos : rest->find(']', mark);
  const bool is_mark = end != rest->npos && rest->substr(mark, end - mark).find('@') != rest->npos;
  std::string_view reason = is_mark ? rest->substr(0, end + 1) : *rest;
  while (reason.ends_with(' ')) reason.remove_suffix(1);
  return std::string(reason);
}

}  // namespace

int run_slurm_hook(const HealthRunOptions& options, const CommonOptions& common) {
  const std::string hook = folded(options.hook);
  if (hook == "prolog") return prolog_hook(options, common);
  return hook == "epilog" ? epilog_hook(options, common) : health_hook(options, common);
}

Result<SlurmNode> parse_slurm_node(std::string_view text, std::string_view name) {
  const std::string_view rest = trimmed(text);
  const std::string_view line = rest.substr(0, rest.find('\n'));
  const auto shown = word_behind(line, "NodeName");
  const auto state = word_behind(line, "State");
  if (!shown || !state) return Error{"scontrol does not show node " + std::string(name)};
  if (*shown != name) {
    return Error{"scontrol shows node " + std::string(*shown) + " instead of " + std::string(name)};
  }
  return SlurmNode{std::string(name), is_drain_state(*state), reason_of_line(line)};
}

}  // namespace muster
