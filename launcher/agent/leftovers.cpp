#include "launcher/agent/leftovers.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstring>
#include <span>
#include <vector>

#include "launcher/agent/attempt_files.h"
#include "launcher/agent/attempt_group.h"
#include "launcher/agent/attempt_layout.h"
#include "launcher/agent/attempt_processes.h"
#include "launcher/agent/spawn.h"
#include "launcher/agent/spool.h"
#include "launcher/agent/system_error_text.h"

namespace muster {

namespace {

using SteadyClock = std::chrono::steady_clock;

// After SIGKILL a process ends at once unless the kernel holds it: then no wait helps.
constexpr std::chrono::seconds reap_limit{60};
// Two empty scans in a row: one scan can miss a process that forks while /proc is read.
constexpr int empty_scans_wanted = 2;
// The kernel kills them with their parent; they need one turn on a busy processor to be gone.
constexpr int last_children_ms = 100;
constexpr long scan_pause_ns = 5'000'000;
// A disk that is full when the agent dies: someone may make room, or start an agent that waits.
constexpr std::chrono::hours room_limit{1};
constexpr int room_pause_ms = 500;

// In one message; the kernel takes at most 253 descriptors.
constexpr std::size_t pipes_at_once = 128;
constexpr std::size_t control_bytes = CMSG_SPACE(pipes_at_once * sizeof(int));
constexpr char hold_word = 'h';
constexpr char leave_word = 'l';

std::vector<AttemptGroup> groups_of_run(const RunDirectory& run) {
  std::vector<AttemptGroup> groups;
  for (const AttemptKey& key : attempts_below(spools_root(run))) {
    if (auto group = AttemptGroup::noted(layout_of(run, key).spool)) groups.push_back(*group);
  }
  return groups;
}

ProcessMarks marks_of_run(const RunDirectory& run) {
  ProcessMarks marks;
  marks.is_token = [&run](const std::string& token) { return is_token_of_run(run, token); };
  marks.socket_path = run.socket_path();
  marks.spool_prefix = spools_root(run) + "/";
  marks.takes_orphans = false;  // the caller has not started anything yet
  return marks;
}

std::set<pid_t> members_of(const std::vector<AttemptGroup>& groups) {
  std::set<pid_t> members;
  for (const AttemptGroup& group : groups) members.merge(group.members());
  return members;
}

// A word to the keeper, with pipes to hold or without.
void tell(int line, char word, std::span<const int> pipes) {
  alignas(cmsghdr) char control[control_bytes] = {};
  iovec text{&word, 1};
  msghdr message{};
  message.msg_iov = &text;
  message.msg_iovlen = 1;
  if (!pipes.empty()) {
    message.msg_control = control;
    message.msg_controllen = CMSG_SPACE(pipes.size_bytes());
    cmsghdr* head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(pipes.size_bytes());
    std::memcpy(CMSG_DATA(head), pipes.data(), pipes.size_bytes());
  }
  // One that is stopped or dead takes nothing: the next keeper is given all pipes.
  [[maybe_unused]] const ssize_t put = ::sendmsg(line, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
}

void tell_to_hold(int line, const std::vector<int>& pipes) {
  std::span<const int> left(pipes);
  while (!left.empty()) {
    const auto some = left.first(std::min(left.size(), pipes_at_once));
    tell(line, hold_word, some);
    left = left.subspan(some.size());
  }
}

// The agent's next word, and the pipes that came with it; nothing when the agent is dead.
std::optional<char> hear(int line, std::vector<Fd>& pipes) {
  char word = 0;
  alignas(cmsghdr) char control[control_bytes];
  iovec text{&word, 1};
  msghdr message{};
  message.msg_iov = &text;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  ssize_t got = 0;
  while ((got = ::recvmsg(line, &message, MSG_CMSG_CLOEXEC)) < 0 && errno == EINTR) {
  }
  if (got != 1) return {};
  const cmsghdr* head = CMSG_FIRSTHDR(&message);
  if (head == nullptr) return word;
  for (std::size_t at = 0; CMSG_LEN(at) < head->cmsg_len; at += sizeof(int)) {
    int pipe = -1;
    std::memcpy(&pipe, CMSG_DATA(head) + at, sizeof pipe);
    pipes.emplace_back(pipe);
  }
  return word;
}

bool has_no_name(const Fd& pipe) {
  struct stat facts {};
  return ::fstat(pipe.get(), &facts) == 0 && facts.st_nlink == 0;
}

// The pipes that a dead agent leaves.
std::vector<Fd> hold_pipes_until_death(int line) {
  std::vector<Fd> pipes;
  while (const auto word = hear(line, pipes)) {
    if (*word == leave_word) ::_exit(0);
    std::erase_if(pipes, has_no_name);
  }
  return pipes;
}

// Into the spools with what the dead have written; false while there is no room.
bool move_last_output(const RunDirectory& run) {
  bool is_all = true;
  for (const AttemptKey& key : attempts_below(spools_root(run))) {
    const std::string directory = layout_of(run, key).spool;
    for (const RankId rank : Spool::ranks_in(directory)) {
      auto spool = Spool::open(directory, rank);
      if (!spool || !spool->take_in_to(spool->end())) is_all = false;
    }
  }
  return is_all;
}

// What a next agent would do; whoever has the lock does it. True when there is no more to do.
bool end_and_move(const RunDirectory& agents) {
  // The home was removed: there is nothing to lock or to fill.
  if (::access(agents.path.c_str(), F_OK) != 0 && errno == ENOENT) {
    static_cast<void>(end_leftovers(agents));
    return true;
  }
  const auto run = open_run_directory(agents.home, agents.controller, agents.node);
  if (!run) return false;
  const auto lock = wait_for_agent_lock(*run);
  if (!lock) return false;
  if (!*lock) return true;  // another agent is there
  const bool are_dead = static_cast<bool>(end_leftovers(*run));
  return move_last_output(*run) || !are_dead;
}

// In the forked child, which has the agent's descriptors: its sockets and its lock must go.
[[noreturn]] void keep(const RunDirectory& agents, int agents_line) {
  ::setsid();
  reset_signals();
  ::signal(SIGTERM, SIG_IGN);  // a shutdown ends the agent first
  ::prctl(PR_SET_NAME, "muster-keeper");
  const int line = ::dup2(agents_line, STDERR_FILENO + 1);
  close_descriptors_from(STDERR_FILENO + 2);
  const std::vector<Fd> pipes = hold_pipes_until_death(line);
  // Children of the dead agent that had not exec'd yet hold its lock and socket for a moment
  // longer.
  ::poll(nullptr, 0, last_children_ms);
  const auto deadline = SteadyClock::now() + room_limit;
  while (!end_and_move(agents)) {
    if (SteadyClock::now() > deadline) ::_exit(1);
    ::poll(nullptr, 0, room_pause_ms);
  }
  ::_exit(0);
}

}  // namespace

Status end_leftovers(const RunDirectory& run) {
  const std::vector<AttemptGroup> groups = groups_of_run(run);
  ProcessMarks marks = marks_of_run(run);
  const auto deadline = SteadyClock::now() + reap_limit;
  for (int empty_scans = 0; empty_scans < empty_scans_wanted;) {
    marks.members = members_of(groups);
    const auto found = find_attempt_processes(marks);
    if (found.empty()) {
      ++empty_scans;
      continue;
    }
    empty_scans = 0;
    if (SteadyClock::now() > deadline) {
      return Error{"processes of an earlier agent survive SIGKILL: " + describe(found.front()) +
                   " and " + std::to_string(found.size() - 1) + " more; the node needs a reboot"};
    }
    for (const AttemptGroup& group : groups) group.kill();
    kill_processes(found);
    const timespec pause{0, scan_pause_ns};
    ::nanosleep(&pause, nullptr);
  }
  for (const AttemptGroup& group : groups) group.remove();
  return Done{};
}

Status Keeper::ensure(const std::vector<int>& pipes) {
  if (pid_) return Done{};
  int line[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, line) != 0) {
    return system_error("make a socket pair");
  }
  const Fd keepers_end(line[0]);
  line_ = Fd(line[1]);
  tell_to_hold(line_.get(), pipes);  // what is on its way is held too
  const pid_t child = ::fork();
  if (child == 0) keep(run_, keepers_end.get());
  if (child < 0) return system_error("start the keeper");
  pid_ = child;
  return Done{};
}

void Keeper::hold(const std::vector<int>& pipes) {
  if (pid_) tell_to_hold(line_.get(), pipes);
}

bool Keeper::reaped(pid_t pid) {
  if (pid_ != pid) return false;
  pid_.reset();
  return true;
}

void Keeper::dismiss() {
  if (pid_) tell(line_.get(), leave_word, {});
}

}  // namespace muster
