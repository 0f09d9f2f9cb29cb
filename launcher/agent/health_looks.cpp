#include "launcher/agent/health_looks.h"

#include "launcher/os/own_program.h"

namespace muster {

std::vector<std::string> health_look_arguments(const LookAtHealth& request, bool is_busy,
                                               const std::string& state_file) {
  const HealthWanted& wanted = request.wanted;
  std::vector<std::string> words{"health",
                                 "run",
                                 "--output=json",
                                 "--color=never",
                                 "--only-show-errors",
                                 "--state=" + state_file};
  if (!request.profile.empty()) {
    words.emplace_back("--profile=-");
    words.emplace_back("--profile-alone");
  }
  if (is_busy) {
    words.emplace_back("--beside-ranks");
  } else {
    if (!wanted.phase.empty()) words.push_back("--phase=" + wanted.phase);
    if (wanted.is_idle) words.emplace_back("--idle");
  }
  if (wanted.quick) words.emplace_back("--quick");
  for (const std::string& pattern : wanted.checks) words.push_back("--check=" + pattern);
  return words;
}

void HealthLooks::start(const LookAtHealth& request, bool runs_ranks,
                        const Environment& environment) {
  const bool is_busy = runs_ranks || request.is_held;
  ExecStart command;
  command.id = request.id;
  command.argv = health_look_arguments(request, is_busy, run_.path + "/health-asked.state");
  command.argv.insert(command.argv.begin(), own_program());
  const auto pid = execs_.start(command, environment, run_.path);
  if (!pid) return execs_.refuse(request.id, pid.error().message);
  sessions_.insert(*pid);
  if (!is_busy) wide_[*pid] = request.id;
  if (!request.profile.empty()) execs_.input(request.id, request.profile);
  execs_.input(request.id, {});
}

void HealthLooks::ranks_begin() {
  for (const auto& [pid, id] : wide_) execs_.stop(id);
  wide_.clear();
}

void HealthLooks::reaped(pid_t pid) {
  sessions_.erase(pid);
  wide_.erase(pid);
}

}  // namespace muster
