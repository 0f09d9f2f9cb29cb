#include "launcher/agent/attempt_processes.h"

#include <unistd.h>

#include <csignal>
#include <map>

#include "launcher/agent/attempt_layout.h"

namespace muster {

namespace {

enum class Owner { unknown, ours, other };

bool writes_to(pid_t pid, const std::string& prefix) {
  for (const char* fd : {"1", "2"}) {
    char path[64];
    std::snprintf(path, sizeof path, "/proc/%d/fd/%s", pid, fd);
    char target[4096];
    const ssize_t length = ::readlink(path, target, sizeof target);
    if (length > 0 &&
        std::string_view(target, static_cast<std::size_t>(length)).starts_with(prefix))
      return true;
  }
  return false;
}

Owner owner_by_token(const ProcessInfo& process, const ProcessMarks& marks) {
  const std::string block = read_process_environment(living_thread(process));
  const auto token = environment_entry(block, token_name);
  if (!token) return Owner::unknown;
  if (environment_entry(block, socket_name) != marks.socket_path) return Owner::other;
  return marks.is_token(*token) ? Owner::ours : Owner::other;
}

// Walks up to the agent, asking each process on the way who owns it.
class Ownership {
 public:
  Ownership(const std::vector<ProcessInfo>& processes, const ProcessMarks& marks)
      : marks_(marks), agent_(::getpid()) {
    for (const ProcessInfo& process : processes) by_pid_[process.pid] = &process;
  }

  Owner of(const ProcessInfo& process) {
    if (const auto known = known_.find(process.pid); known != known_.end()) return known->second;
    known_[process.pid] =
        Owner::unknown;  // ends a walk over a table that changed while it was read
    return known_[process.pid] = decide(process);
  }

 private:
  Owner decide(const ProcessInfo& process) {
    if (process.pid == agent_ || process.pid == 1) return Owner::unknown;
    if (marks_.members.contains(process.pid)) return Owner::ours;
    if (const Owner owner = owner_by_token(process, marks_); owner != Owner::unknown) return owner;
    if (!marks_.spool_prefix.empty() && writes_to(living_thread(process), marks_.spool_prefix)) {
      return Owner::ours;
    }
    if (!descends_from_agent(process)) return Owner::unknown;
    if (marks_.other_sessions.contains(process.session)) return Owner::other;
    if (marks_.sessions.contains(process.session)) return Owner::ours;
    if (process.parent != agent_) return of(*by_pid_.at(process.parent));
    return marks_.takes_orphans ? Owner::ours : Owner::unknown;
  }

  bool descends_from_agent(const ProcessInfo& process) const {
    const ProcessInfo* at = &process;
    for (std::size_t steps = 0; steps <= by_pid_.size(); ++steps) {
      if (at->parent == agent_) return true;
      const auto parent = by_pid_.find(at->parent);
      if (parent == by_pid_.end() || at->parent <= 1) return false;
      at = parent->second;
    }
    return false;
  }

  const ProcessMarks& marks_;
  const pid_t agent_;
  std::map<pid_t, const ProcessInfo*> by_pid_;
  std::map<pid_t, Owner> known_;
};

}  // namespace

std::vector<ProcessInfo> find_attempt_processes(const ProcessMarks& marks) {
  const std::vector<ProcessInfo> all = scan_processes();
  Ownership ownership(all, marks);
  std::vector<ProcessInfo> found;
  for (const ProcessInfo& process : all) {
    if (process.is_dead() || process.is_of_kernel() || process.pid == ::getpid()) continue;
    if (ownership.of(process) == Owner::ours) found.push_back(process);
  }
  return found;
}

void kill_processes(const std::vector<ProcessInfo>& processes) {
  for (const ProcessInfo& process : processes) signal_process(process, SIGSTOP);
  for (const ProcessInfo& process : processes) signal_process(process, SIGKILL);
}

}  // namespace muster
