#include "launcher/agent/health/command.h"

#include <algorithm>

#include "launcher/agent/keeper/layout.h"
#include "launcher/os/child.h"

namespace muster {

namespace {

// In the agent's directory: what looks on demand remember from one to the next.
constexpr const char* asked_state = "/health-asked.state";

// `muster health VERB` for a program that reads its answer; a profile comes on standard input.
std::vector<std::string> health_words(const char* verb, const std::string& state_file,
                                      const std::string& profile) {
  std::vector<std::string> words{"health",
                                 verb,
                                 "--output=json",
                                 "--color=never",
                                 "--only-show-errors",
                                 "--state=" + state_file};
  if (!profile.empty()) words.insert(words.end(), {"--profile=-", "--no-base-profile"});
  return words;
}

}  // namespace

std::vector<std::string> health_run_arguments(const LookAtHealth& request, bool is_busy,
                                              const std::string& state_file) {
  const HealthWanted& wanted = request.wanted;
  std::vector<std::string> words = health_words("run", state_file, request.profile);
  if (is_busy) {
    words.emplace_back("--during-job");
  } else {
    if (!wanted.phase.empty()) words.push_back("--phase=" + wanted.phase);
    if (wanted.is_idle) words.emplace_back("--idle");
  }
  if (wanted.quick) words.emplace_back("--once");
  for (const std::string& pattern : wanted.checks) words.push_back("--check=" + pattern);
  return words;
}

std::vector<std::string> benchmark_arguments(const MeasureNode& request,
                                             const std::string& state_file) {
  std::vector<std::string> words{"agent", "probe"};
  if (!request.is_probe) words = health_words("benchmark", state_file, request.profile);
  words.insert(words.end(), request.words.begin(), request.words.end());
  return words;
}

void HealthCommand::start(const LookAtHealth& request, bool runs_ranks, Environment environment) {
  const bool is_busy = runs_ranks || request.is_held;
  const auto arguments = health_run_arguments(request, is_busy, run_.path + asked_state);
  const auto pid = run(request.id, arguments, std::move(environment), request.profile);
  if (pid && !is_busy) wide_[*pid] = {request.id, false, {}, false};
}

void HealthCommand::measure(const MeasureNode& request, bool runs_ranks, Environment environment) {
  const std::string forbidden = blocking_reason(request, runs_ranks);
  if (!forbidden.empty()) return execs_.refuse(request.id, forbidden);
  const std::string profile = request.is_probe ? "" : request.profile;
  const auto arguments = benchmark_arguments(request, run_.path + asked_state);
  const auto pid = run(request.id, arguments, std::move(environment), profile);
  if (pid) wide_[*pid] = {request.id, true, request.is_probe ? request.token : "", false};
  poll();  // when it could not be started
}

// Two would measure each other; the probes of one run know of each other.
std::string HealthCommand::blocking_reason(const MeasureNode& request, bool runs_ranks) {
  if (runs_ranks) return "ranks run there";
  const auto is_other = [&](const auto& item) {
    const Wide& wide = item.second;
    const bool is_same_run =
        request.is_probe && !request.token.empty() && wide.token == request.token;
    return wide.is_measurement && !is_same_run;
  };
  constexpr const char* is_measured = "it is being measured already";
  if (std::ranges::any_of(wide_, is_other)) return is_measured;
  if (const std::string hung = ending_.hung(); !hung.empty()) return hung;
  return claim_.take() ? "" : is_measured + claim_.whose();
}

std::optional<pid_t> HealthCommand::run(const std::string& id, std::vector<std::string> arguments,
                                        Environment environment, const std::string& profile) {
  environment[token_name] = "health";  // no process of any attempt, whoever its parent becomes
  ExecStart command;
  command.id = id;
  command.argv = std::move(arguments);
  command.argv.insert(command.argv.begin(), self_exe());
  const auto pid = execs_.start(command, environment, run_.path);
  if (!pid) {
    execs_.refuse(id, pid.error().message);
    return std::nullopt;
  }
  sessions_.insert(*pid);
  if (!profile.empty()) execs_.input(id, profile);
  execs_.input(id, {});
  return *pid;
}

bool HealthCommand::is_measuring() const {
  return std::ranges::any_of(wide_, [](const auto& item) { return item.second.is_measurement; });
}

void HealthCommand::end(pid_t pid, Wide& wide) {
  wide.is_ended = true;
  ending_.add(pid);
  execs_.stop(wide.id);
}

void HealthCommand::job_comes() {
  for (auto& [pid, wide] : wide_) {
    if (wide.is_measurement) end(pid, wide);
  }
}

void HealthCommand::end_wide() {
  for (auto& [pid, wide] : wide_) end(pid, wide);
}

void HealthCommand::stop(const std::string& id) {
  for (auto& [pid, wide] : wide_) {
    if (wide.id == id) end(pid, wide);
  }
}

// What it had started may be there yet.
void HealthCommand::reaped(pid_t pid) {
  if (sessions_.erase(pid) == 0) return;
  wide_.erase(pid);
  ending_.add(pid);
  poll();
}

void HealthCommand::poll() {
  if (!ending_.are_gone()) return;
  std::erase_if(wide_, [](const auto& item) { return item.second.is_ended; });
  if (!is_measuring()) claim_.give_back();
}

}  // namespace muster
