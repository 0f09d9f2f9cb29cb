#include "cli/health_nodes.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <nlohmann/json.hpp>
#include <variant>

#include "cli/ensure_controller.h"
#include "cli/health_fleet.h"
#include "cli/health_node_choice.h"
#include "cli/health_nodes_report.h"
#include "cli/health_profile.h"
#include "cli/job_check.h"
#include "cli/terminal.h"
#include "cli/time_text.h"
#include "health/output/nagios.h"
#include "health/output/prometheus.h"
#include "launcher/os/whole_file.h"
#include "scheduler/model/exit_code.h"

namespace muster {

namespace {

using Clock = std::chrono::steady_clock;

constexpr int usage_error = 2;
constexpr int invalid_file = static_cast<int>(ExitCode::invalid_job);
constexpr int internal = static_cast<int>(ExitCode::internal);
constexpr Milliseconds usual_timeout{15'000};
constexpr Milliseconds longest_timeout{600'000};
// The controller answers for each node in time; one that does not is stuck.
constexpr Milliseconds patience{10'000};

int failed(const std::string& sentence, int code, const CommonOptions& common) {
  complain(sentence, common);
  return code;
}

// What is for this host alone.
std::string misplaced(const HealthRunOptions& options) {
  if (!options.root.empty()) return "--root";
  if (!options.state.empty()) return "--state";
  if (options.forget) return "--forget";
  if (options.slurm) return "--slurm";
  if (options.beside_ranks) return "--beside-ranks";
  if (options.profile_alone) return "--profile-alone";
  return {};
}

std::string misfit_of(const HealthRunOptions& options) {
  const std::string option = misplaced(options);
  if (!option.empty()) return option + " is for this host, not for nodes";
  const Milliseconds timeout = options.timeout.value_or(usual_timeout);
  if (timeout <= Milliseconds{0} || timeout > longest_timeout) {
    return "--timeout: expected more than 0 and at most " + elapsed_text(longest_timeout);
  }
  return {};
}

struct Question {
  LookAtNodes request;
  std::map<std::string, std::string> target_of;   // each node
  std::map<std::string, HealthProfile> profiles;  // of targets that have one
};

Question question_of(const std::vector<ComputeTarget>& targets,
                     const std::optional<HealthProfile>& profile, const HealthRunOptions& options) {
  Question question;
  for (const ComputeTarget& target : targets) {
    const std::optional<HealthProfile>& used = profile ? profile : target.health;
    question.request.nodes.push_back({target, used ? write_health_profile(*used) : ""});
    if (used) question.profiles[target.name] = *used;
    for (const NodeAddress& node : target.nodes) question.target_of[node.id.value] = target.name;
  }
  question.request.wanted = {options.phase, options.checks, options.quick, options.idle};
  question.request.timeout = options.timeout.value_or(usual_timeout);
  return question;
}

HealthProfile profile_of(const Question& question, const NodeAnswer& answer) {
  const auto known = question.profiles.find(answer.target);
  if (known != question.profiles.end()) return known->second;
  const ShippedProfile* shipped = find_shipped_profile(answer.profile);
  if (shipped == nullptr) return {};
  return read_health_profile(std::string(shipped->name), shipped->text, {}).profile;
}

// Reads answers until each node has one, or the controller goes away or stays silent.
class Asking {
 public:
  Asking(ControllerClient client, const Question& question)
      : client_(std::move(client)), question_(question), waiting_(question.target_of) {}

  // An answer for each node; or what the controller said instead of asking them.
  std::variant<std::vector<NodeAnswer>, Refused> run() {
    std::string lost;
    if (const auto sent = client_.send(question_.request); !sent) lost = sent.error().message;
    const auto deadline = Clock::now() + question_.request.timeout + patience;
    while (lost.empty() && !waiting_.empty()) {
      const auto left = std::chrono::duration_cast<Milliseconds>(deadline - Clock::now());
      auto message = client_.receive(std::max(left, Milliseconds{0}));
      if (!message) {
        lost = message.error().message;
      } else if (!*message) {
        lost = "the controller gave no answer";
      } else if (const auto* no = std::get_if<Refused>(&(*message)->message)) {
        return *no;
      } else if (const auto* one = std::get_if<NodeLooked>(&(*message)->message)) {
        take(*one, std::move((*message)->payload));
      }
    }
    for (const auto& [node, target] : waiting_) answers_.push_back(without(node, target, lost));
    return std::move(answers_);
  }

 private:
  static NodeAnswer without(const std::string& node, const std::string& target,
                            const std::string& why) {
    return no_answer(node, target, why, utc_text(wall_clock_now()));
  }

  void take(const NodeLooked& looked, std::string payload) {
    const auto found = waiting_.find(looked.node.value);
    if (found == waiting_.end()) return;
    const auto& [node, target] = *found;
    NodeAnswer answer = looked.error.empty() ? read_answer(node, target, std::move(payload),
                                                           utc_text(wall_clock_now()))
                                             : without(node, target, looked.error);
    // A look of its own may see no reason any more: it gets no job all the same.
    if (!looked.drained.empty() && answer.fitness != NodeFitness::drained) {
      answer.fitness = NodeFitness::drained;
      answer.why = looked.drained;
    }
    answers_.push_back(std::move(answer));
    waiting_.erase(found);
  }

  ControllerClient client_;
  const Question& question_;
  std::map<std::string, std::string> waiting_;
  std::vector<NodeAnswer> answers_;
};

int keep_metrics(const std::vector<NodeAnswer>& answers, const HealthRunOptions& options,
                 const CommonOptions& common) {
  if (options.prometheus_file.empty()) return 0;
  constexpr mode_t readable = 0644;
  const std::string text = prometheus_text(reports_of(answers), wall_clock_now(), HostNames::told);
  if (replace_file(options.prometheus_file, text, readable, Durable::in_cache)) return 0;
  return failed("cannot write " + options.prometheus_file + ": " + std::strerror(errno), internal,
                common);
}

int tell(const std::vector<NodeAnswer>& answers, const HealthRunOptions& options,
         const CommonOptions& common) {
  const int code = static_cast<int>(health_exit(answers));
  const auto reports = reports_of(answers);
  if (common.output == OutputFormat::nagios) {
    const PluginAnswer plugin = nagios_answer(reports, HostNames::told);
    write_all(Stream::out, plugin.line + "\n");
    return plugin.exit_code;
  }
  if (common.output == OutputFormat::prometheus) {
    write_all(Stream::out, prometheus_text(reports, wall_clock_now(), HostNames::told));
  } else if (common.output == OutputFormat::jsonl) {
    write_all(Stream::out, report_lines(reports));
  } else if (wants_table(common)) {
    const int width = is_terminal(Stream::out) ? terminal_width(Stream::out) : 0;
    const bool color = wants_color(common.color, Stream::out);
    write_all(Stream::out, nodes_text(answers, {options.all, width, color}));
  } else {
    Document document = nodes_document(answers);
    const bool is_lines = common.output == OutputFormat::tsv && common.query.empty();
    if (is_lines) {
      document = Document::array();
      for (const FindingReport& report : reports) document.push_back(report_document(report));
    }
    const int printed = print_document(document, common);
    if (printed != 0) return printed;
  }
  return code;
}

}  // namespace

int run_health_nodes(const HealthRunOptions& options, const CommonOptions& common) {
  const std::string misfit = misfit_of(options);
  if (!misfit.empty()) return failed(misfit, usage_error, common);
  std::optional<HealthProfile> profile;
  if (!options.profile.empty()) {
    auto named = named_profile(options.profile, common);
    if (!named) return failed(named.error().message, invalid_file, common);
    profile = std::move(*named);
  }
  const auto known = find_targets(common);
  if (!known) return failed(known.error().message, internal, common);
  print_findings(known->findings, common);
  const auto targets = chosen_nodes(known->targets, options.target, options.nodes);
  if (!targets) return failed(targets.error().message, usage_error, common);
  const Question question = question_of(*targets, profile, options);
  auto client = ensure_controller(Home::from_environment(), common);
  if (!client) return failed(client.error().message, internal, common);
  auto asked = Asking(std::move(*client), question).run();
  if (const auto* no = std::get_if<Refused>(&asked)) {
    return failed(no->message, no->exit_code, common);
  }
  auto& answers = std::get<std::vector<NodeAnswer>>(asked);
  const auto kind = [&](const NodeAnswer& answer) { return profile_of(question, answer); };
  compare_nodes(answers, options.checks, kind, wall_clock_now());
  sort_worst_first(answers);
  const int kept = keep_metrics(answers, options, common);
  const int code = tell(answers, options, common);
  return kept != 0 ? kept : code;
}

}  // namespace muster
