#include "launcher/agent/keeper/processes.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <ctime>
#include <filesystem>
#include <map>
#include <sstream>

#include "launcher/agent/keeper/layout.h"
#include "launcher/os/fd.h"
#include "launcher/os/read_file.h"

namespace muster {

namespace {

// The agent's own programs have a token and no socket.
enum class Owner { unknown, ours, other, agent };

bool descends_from(pid_t ancestor, const ProcessInfo& process,
                   const std::map<pid_t, const ProcessInfo*>& by_pid) {
  const ProcessInfo* at = &process;
  for (std::size_t steps = 0; steps <= by_pid.size(); ++steps) {
    if (at->parent == ancestor) return true;
    const auto parent = by_pid.find(at->parent);
    if (parent == by_pid.end() || at->parent <= 1) return false;
    at = parent->second;
  }
  return false;
}

std::map<pid_t, const ProcessInfo*> by_number(const std::vector<ProcessInfo>& processes) {
  std::map<pid_t, const ProcessInfo*> by_pid;
  for (const ProcessInfo& process : processes) by_pid[process.pid] = &process;
  return by_pid;
}

// Walks up to the agent, asking each process on the way who owns it. What descends from a process
// of the attempt is the attempt's, whatever its environment says: muster inside a job too.
class Ownership {
 public:
  Ownership(ProcessTable& table, const std::vector<ProcessInfo>& processes,
            const ProcessMarks& marks)
      : table_(table), processes_(processes), marks_(marks), by_pid_(by_number(processes)) {}

  Owner of(const ProcessInfo& process) {
    if (const auto known = known_.find(process.pid); known != known_.end()) return known->second;
    known_[process.pid] =
        Owner::unknown;  // ends a walk over a table that changed while it was read
    return known_[process.pid] = decide(process);
  }

 private:
  Owner decide(const ProcessInfo& process) {
    if (process.pid == marks_.agent || process.pid == 1) return Owner::unknown;
    if (marks_.members.contains(process.pid)) return Owner::ours;
    const Owner marked = owner_by_signs(process);
    if (marked == Owner::ours) return Owner::ours;
    const Owner above = owner_above(process, marked);
    if (above == Owner::ours || marked == Owner::unknown) return above;
    return Owner::other;
  }

  Owner owner_above(const ProcessInfo& process, Owner marked) {
    if (descends_from(marks_.agent, process, by_pid_)) {
      if (marks_.other_sessions.contains(process.session)) return Owner::other;
      if (marks_.sessions.contains(process.session)) return Owner::ours;
    }
    const auto parent = by_pid_.find(process.parent);
    Owner owner = Owner::unknown;
    if (process.parent == marks_.agent) {
      if (marks_.takes_orphans && marked != Owner::agent) owner = Owner::ours;
    } else if (parent != by_pid_.end()) {
      owner = of(*parent->second);
    }
    if (owner != Owner::unknown) return owner;
    return is_session_ours(process.session) ? Owner::ours : Owner::unknown;
  }

  // That one of ours began. Of a leader that is dead its session says only who else is in it.
  bool is_session_ours(pid_t session) {
    if (session <= 1) return false;  // begun outside of a container, or by its first process
    const auto leader = by_pid_.find(session);
    if (leader != by_pid_.end() && !leader->second->is_dead()) {
      return of(*leader->second) == Owner::ours;
    }
    if (marks_.begun_sessions.contains(session)) return true;
    const auto [known, is_new] = is_marked_.try_emplace(session, false);
    if (!is_new) return known->second;
    return known->second = std::ranges::any_of(processes_, [&](const ProcessInfo& one) {
             return one.session == session && owner_by_signs(one) == Owner::ours;
           });
  }

  Owner owner_by_signs(const ProcessInfo& process) const {
    const ProcessSigns signs = table_.signs_of(process);
    if (const auto token = environment_entry(signs.environment, token_name)) {
      const auto socket = environment_entry(signs.environment, socket_name);
      if (!socket) return Owner::agent;
      const bool is_ours = socket == marks_.socket_path && marks_.is_token(*token);
      return is_ours ? Owner::ours : Owner::other;
    }
    for (const std::string& output : signs.outputs) {
      if (!marks_.spool_prefix.empty() && output.starts_with(marks_.spool_prefix)) {
        return Owner::ours;
      }
    }
    return Owner::unknown;
  }

  ProcessTable& table_;
  const std::vector<ProcessInfo>& processes_;
  const ProcessMarks& marks_;
  std::map<pid_t, const ProcessInfo*> by_pid_;
  std::map<pid_t, Owner> known_;
  std::map<pid_t, bool> is_marked_;  // sessions whose leader is dead
};

bool is_shell(const std::string& program) {
  const std::string name = program.substr(program.rfind('/') + 1);
  return name == "bash" || name == "sh" || name == "dash" || name == "busybox";
}

// For workers and helpers after the ranks are gone: they have nothing to save.
constexpr std::chrono::seconds terminate_limit{5};
// After SIGKILL a process ends at once unless the kernel holds it (D state): waiting longer is
// vain.
constexpr std::chrono::seconds reap_limit{60};
// One scan can miss a process that forks while /proc is read.
constexpr int empty_scans_wanted = 2;
constexpr timespec scan_pause{0, 5'000'000};

std::string note_path(const std::string& spool) {
  return spool + "/group";
}

// "36 35 98:0 /root /mount/point rw,noatime shared:1 - cgroup2 cgroup2 rw"
std::optional<std::string> mount_point(const std::string& line) {
  const std::size_t dash = line.find(" - cgroup2 ");
  if (dash == std::string::npos) return std::nullopt;
  std::istringstream fields(line);
  std::string skipped, root, point;
  fields >> skipped >> skipped >> skipped >> root >> point;
  return root == "/" ? std::optional(point) : std::nullopt;
}

// The group and all below it, each before its parent.
std::vector<std::string> groups_of(const std::string& path) {
  std::vector<std::string> found;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(path, ignored)) {
    if (!entry.is_directory(ignored) || entry.is_symlink(ignored)) continue;
    for (std::string& below : groups_of(entry.path().string())) found.push_back(std::move(below));
  }
  found.push_back(path);
  return found;
}

}  // namespace

std::vector<ProcessInfo> find_attempt_processes(ProcessTable& table, const ProcessMarks& marks) {
  const std::vector<ProcessInfo> all = table.scan();
  Ownership ownership(table, all, marks);
  std::vector<ProcessInfo> found;
  for (const ProcessInfo& process : all) {
    if (process.is_dead() || process.is_of_kernel() || process.pid == marks.agent) continue;
    if (ownership.of(process) == Owner::ours) found.push_back(process);
  }
  return found;
}

std::vector<ProcessInfo> find_descendants(ProcessTable& table, pid_t agent) {
  const std::vector<ProcessInfo> all = table.scan();
  const auto by_pid = by_number(all);
  std::vector<ProcessInfo> found;
  for (const ProcessInfo& process : all) {
    if (!process.is_dead() && descends_from(agent, process, by_pid)) found.push_back(process);
  }
  return found;
}

void kill_processes(ProcessTable& table, const std::vector<ProcessInfo>& processes) {
  for (const ProcessInfo& process : processes) table.signal(process, SIGSTOP);
  for (const ProcessInfo& process : processes) table.signal(process, SIGKILL);
}

std::vector<ProcessInfo> children_of_shell(ProcessTable& table, const ProcessInfo& process) {
  std::vector<ProcessInfo> children;
  if (!is_shell(table.signs_of(process).program)) return children;
  for (ProcessInfo& other : table.scan()) {
    if (other.parent == process.pid && !other.is_dead()) children.push_back(std::move(other));
  }
  return children;
}

void AttemptStop::begin(std::vector<ProcessInfo> signalled, Limits limits, Clock::time_point now) {
  const Clock::time_point deadline = now + limits.grace;
  const Clock::time_point limit = now + std::max(limits.grace, limits.grace_max);
  if (auto* running = std::get_if<Grace>(&phase_)) {
    running->deadline = std::min(running->deadline, deadline);
    running->limit = std::min(running->limit, limit);
    running->kills = running->kills && limits.kills;
    return;
  }
  const Proven* before = proven();
  if (before != nullptr && !before->unkillable.empty()) return kill_now(now);
  if (is_idle()) phase_ = Grace{std::move(signalled), deadline, limit, limits.kills};
}

void AttemptStop::extend(Clock::time_point until) {
  auto* grace = std::get_if<Grace>(&phase_);
  if (grace != nullptr) grace->deadline = std::max(grace->deadline, std::min(until, grace->limit));
}

void AttemptStop::kill_now(Clock::time_point now) {
  if (std::holds_alternative<Killing>(phase_)) return;
  phase_ = Killing{now + reap_limit};
}

void AttemptStop::step(Clock::time_point now, const Find& find) {
  while (is_active() && step_once(now, find)) {
  }
}

// True when another step may follow at once.
bool AttemptStop::step_once(Clock::time_point now, const Find& find) {
  if (auto* grace = std::get_if<Grace>(&phase_)) {
    std::erase_if(grace->signalled,
                  [this](const ProcessInfo& rank) { return !table_.is_alive(rank); });
    if (!grace->signalled.empty() && now < grace->deadline) return false;
    if (grace->kills && !grace->signalled.empty()) {
      kill_now(now);
      return true;
    }
    const auto left = find();
    for (const ProcessInfo& process : left) {
      table_.signal(process, SIGTERM);
      table_.signal(process, SIGCONT);
    }
    for (const ProcessInfo& rank : grace->signalled) table_.signal(rank, SIGKILL);
    if (left.empty())
      phase_ = Killing{now + reap_limit, 1};
    else
      phase_ = Terminating{now + terminate_limit};
    return true;
  }
  if (auto* terminating = std::get_if<Terminating>(&phase_)) {
    const bool is_empty = find().empty();
    if (!is_empty && now < terminating->deadline) return false;
    phase_ = Killing{now + reap_limit, is_empty ? 1 : 0};
    return true;
  }
  auto& killing = std::get<Killing>(phase_);
  const auto left = find();
  if (left.empty()) {
    if (++killing.empty_scans >= empty_scans_wanted) phase_ = Proven{};
    return true;
  }
  killing.empty_scans = 0;
  kill_processes(table_, left);
  if (now < killing.deadline) return false;
  Proven proven;
  for (const ProcessInfo& process : left) proven.unkillable.push_back(describe(process));
  phase_ = std::move(proven);
  return true;
}

std::vector<std::string> kill_until_gone(ProcessTable& table, const AttemptStop::Find& find) {
  AttemptStop stop(table);
  stop.kill_now(AttemptStop::Clock::now());
  while (stop.step(AttemptStop::Clock::now(), find), stop.is_active()) {
    ::nanosleep(&scan_pause, nullptr);
  }
  return stop.proven()->unkillable;
}

std::optional<std::string> own_group(const std::string& mounts, const std::string& groups) {
  std::istringstream lines(mounts);
  std::optional<std::string> point;
  for (std::string line; !point && std::getline(lines, line);) point = mount_point(line);
  if (!point) return std::nullopt;
  std::istringstream own(groups);
  for (std::string line; std::getline(own, line);) {
    if (!line.starts_with("0::/")) continue;
    const std::string path = line.substr(3);
    if (path.find("/..") != std::string::npos) return std::nullopt;  // of another namespace
    return path == "/" ? *point : *point + path;
  }
  return std::nullopt;
}

std::optional<AttemptGroup> AttemptGroup::make(const std::string& name, const std::string& spool) {
  const auto parent =
      own_group(text_of_file("/proc/self/mountinfo"), text_of_file("/proc/self/cgroup"));
  if (!parent) return std::nullopt;
  AttemptGroup group(*parent + "/muster-" + name);
  if (::mkdir(group.path_.c_str(), 0755) != 0 && errno != EEXIST) return std::nullopt;
  const std::string list = group.path_ + "/cgroup.procs";
  const bool is_ours = ::access(list.c_str(), W_OK) == 0 &&
                       replace_file(note_path(spool), group.path_ + "\n", 0600, Durable::in_cache);
  if (is_ours) return group;
  group.remove();
  return std::nullopt;
}

std::optional<AttemptGroup> AttemptGroup::noted(const std::string& spool) {
  const std::string note = text_of_file(note_path(spool));
  if (note.empty() || note.back() != '\n') return std::nullopt;
  AttemptGroup group(note.substr(0, note.size() - 1));
  if (::access((group.path_ + "/cgroup.procs").c_str(), R_OK) != 0) return std::nullopt;
  return group;
}

std::set<pid_t> AttemptGroup::members() const {
  std::set<pid_t> found;
  for (const std::string& path : groups_of(path_)) {
    std::istringstream list(text_of_file(path + "/cgroup.procs"));
    for (pid_t pid = 0; list >> pid;) {
      if (pid > 0) found.insert(pid);  // 0: outside of our namespace of processes
    }
  }
  return found;
}

// Kernels before 5.14 have no such file: then each process is killed by itself.
void AttemptGroup::kill() const {
  const Fd all(::open((path_ + "/cgroup.kill").c_str(), O_WRONLY | O_CLOEXEC));
  if (all) [[maybe_unused]]
    const ssize_t told = ::write(all.get(), "1", 1);
}

void AttemptGroup::remove() const {
  for (const std::string& path : groups_of(path_)) ::rmdir(path.c_str());
}

}  // namespace muster
