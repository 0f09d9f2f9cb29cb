#include "launcher/agent/keeper/keeper.h"

#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstring>
#include <span>

#include "health/checks/host/facts.h"
#include "launcher/agent/keeper/files.h"
#include "launcher/agent/keeper/layout.h"
#include "launcher/agent/keeper/processes.h"
#include "launcher/agent/keeper/spool.h"
#include "launcher/agent/node/log.h"
#include "launcher/agent/node/spawn.h"

namespace muster {

namespace {

using SteadyClock = std::chrono::steady_clock;

// The kernel kills them with their parent; they need one turn on a busy processor to be gone.
constexpr int last_children_ms = 100;
// A disk that is full when the agent dies: someone may make room, or start an agent that waits.
constexpr std::chrono::hours room_limit{1};
constexpr int room_pause_ms = 500;

// An agent that runs ends its ranks within half a second of its lease. Both pauses and the proof
// have to fit into the time that the controller waits beyond the lease (kill_margin, 4 s).
constexpr std::chrono::seconds agents_turn{1};
constexpr int lease_look_ms = 250;
constexpr int standby_look_ms = 500;

// In one message; the kernel takes at most 253 descriptors.
constexpr std::size_t pipes_at_once = 128;
constexpr std::size_t control_bytes = CMSG_SPACE(pipes_at_once * sizeof(int));
constexpr char hold_word = 'h';
constexpr char leave_word = 'l';

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

// What a keeper and its standby have in common.
struct KeeperWatch {
  const RunDirectory& run;
  const Lease& lease;
  ProcessInfo agent;
  int line;  // to the agent; heard by the keeper alone
  std::vector<Fd> pipes;
};

std::vector<int> numbers_of(const std::vector<Fd>& pipes) {
  std::vector<int> numbers;
  for (const Fd& pipe : pipes) numbers.push_back(pipe.get());
  return numbers;
}

[[noreturn]] void keep_on(KeeperWatch& watch);

// Until the keeper is dead; then in its place.
[[noreturn]] void stand_by(KeeperWatch& watch, const ProcessInfo& keeper, int line) {
  HostProcesses table;
  while (true) {
    pollfd heard{line, POLLIN, 0};
    if (::poll(&heard, 1, standby_look_ms) > 0) {
      const auto word = hear(line, watch.pipes);
      if (word == leave_word) ::_exit(0);
      if (!word) break;
      std::erase_if(watch.pipes, has_no_name);
    } else if (const auto now = table.find(keeper.pid); now && now->state == 'T') {
      table.signal(keeper, SIGKILL);
    }
  }
  ::close(line);
  keep_on(watch);
}

// The agent is dead when this returns. One that stands still beyond its lease is ended first.
void await_death(KeeperWatch& watch, PipeHolder& standby) {
  HostProcesses table;
  for (bool is_ended = false;;) {
    // It inherits the pipes. While there is none it is tried again with the next look.
    static_cast<void>(standby.ensure({}));
    pollfd heard[] = {{watch.line, POLLIN, 0}, {standby.pid() ? standby.line() : -1, 0, 0}};
    ::poll(heard, std::size(heard), lease_look_ms);
    if (heard[1].revents != 0) {
      const pid_t dead = *standby.pid();
      if (::waitpid(dead, nullptr, 0) == dead) standby.reaped(dead);
    }
    if (heard[0].revents != 0) {
      std::vector<Fd> more;
      const auto word = hear(watch.line, more);
      if (!word) return;
      if (*word == leave_word) {
        standby.dismiss();
        ::_exit(0);
      }
      standby.hold(numbers_of(more));
      std::move(more.begin(), more.end(), std::back_inserter(watch.pipes));
      std::erase_if(watch.pipes, has_no_name);
    } else if (!is_ended && boot_time() > watch.lease.until() + agents_turn) {
      is_ended = true;  // or ends as soon as the kernel lets go of it
      end_standing_agent(table, watch.agent, {::getpid(), standby.pid().value_or(0)});
      log_line("the keeper ended the agent, which stood still beyond its lease, and its ranks");
    }
  }
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
  HostProcesses table;
  // The home was removed: there is nothing to lock or to fill.
  if (::access(agents.path.c_str(), F_OK) != 0 && errno == ENOENT) {
    static_cast<void>(end_orphan_processes(table, agents));
    return true;
  }
  const auto run = open_run_directory(agents.home, agents.controller, agents.node);
  if (!run) return false;
  const auto lock = wait_for_agent_lock(*run);
  if (!lock) return false;
  if (!*lock) return true;  // another agent is there
  const bool are_dead = static_cast<bool>(end_orphan_processes(table, *run));
  return move_last_output(*run) || !are_dead;
}

void keep_on(KeeperWatch& watch) {
  PipeHolder standby([&](const ProcessInfo& keeper, int line) { stand_by(watch, keeper, line); });
  await_death(watch, standby);
  // Children of the dead agent that had not exec'd yet hold its lock and socket for a moment
  // longer.
  ::poll(nullptr, 0, last_children_ms);
  const auto deadline = SteadyClock::now() + room_limit;
  bool is_done = false;
  while (!(is_done = end_and_move(watch.run)) && SteadyClock::now() < deadline) {
    ::poll(nullptr, 0, room_pause_ms);
  }
  standby.dismiss();
  ::_exit(is_done ? 0 : 1);
}

// In the forked child, which has the agent's descriptors: its sockets and its lock must go.
[[noreturn]] void keep(const RunDirectory& run, const Lease& lease, const ProcessInfo& agent,
                       int agents_line) {
  ::setsid();
  reset_signals();
  ::signal(SIGTERM, SIG_IGN);  // a shutdown ends the agent first
  ::prctl(PR_SET_NAME, "muster-keeper");
  const int line = ::dup2(agents_line, STDERR_FILENO + 1);
  ::closefrom(STDERR_FILENO + 2);
  KeeperWatch watch{run, lease, agent, line, {}};
  keep_on(watch);
}

std::vector<AttemptGroup> groups_of_run(const RunDirectory& run) {
  std::vector<AttemptGroup> groups;
  for (const AttemptKey& key : attempts_below(spools_root(run))) {
    if (auto group = AttemptGroup::noted(layout_of(run, key).spool)) groups.push_back(*group);
  }
  return groups;
}

ProcessMarks marks_of_run(const RunDirectory& run) {
  ProcessMarks marks;
  marks.agent = ::getpid();
  marks.is_token = [&run](const std::string& token) { return is_token_of_run(run, token); };
  marks.socket_path = run.socket_path();
  marks.spool_prefix = spools_root(run) + "/";
  marks.takes_orphans = false;  // the caller has not started anything yet
  const std::string boot_id = read_boot_id();
  for (const AttemptKey& key : attempts_below(spools_root(run))) {
    marks.begun_sessions.merge(noted_sessions(layout_of(run, key).spool, boot_id));
  }
  return marks;
}

std::set<pid_t> members_of(const std::vector<AttemptGroup>& groups) {
  std::set<pid_t> members;
  for (const AttemptGroup& group : groups) members.merge(group.members());
  return members;
}

}  // namespace

std::vector<std::string> end_standing_agent(ProcessTable& table, const ProcessInfo& agent,
                                            const std::set<pid_t>& keepers) {
  table.signal(agent, SIGSTOP);  // it starts nothing more, and tells nobody of a rank that failed
  auto survivors = kill_until_gone(table, [&] {
    auto found = find_descendants(table, agent.pid);
    std::erase_if(found, [&](const ProcessInfo& process) { return keepers.contains(process.pid); });
    return found;
  });
  table.signal(agent, SIGKILL);
  return survivors;
}

Status PipeHolder::ensure(const std::vector<int>& pipes) {
  if (pid_) {
    const auto holder = read_process(*pid_);
    if (holder && holder->state == 'T') ::kill(*pid_, SIGKILL);
    return Done{};
  }
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
    return system_error("make a socket pair");
  }
  const Fd holders_end(ends[0]);
  Fd line(ends[1]);
  tell_to_hold(line.get(), pipes);  // what is on its way is held too
  const auto parent = read_process(::getpid());
  if (!parent) return system_error("read /proc");
  const pid_t child = ::fork();
  if (child == 0) {
    line.reset();
    line_.reset();
    main_(*parent, holders_end.get());
  }
  if (child < 0) return system_error("start the keeper");
  pid_ = child;
  if (line_) tell(line_.get(), leave_word, {});  // who stood by for one that is dead
  line_ = std::move(line);
  return Done{};
}

void PipeHolder::hold(const std::vector<int>& pipes) {
  if (pid_) tell_to_hold(line_.get(), pipes);
}

bool PipeHolder::reaped(pid_t pid) {
  if (pid_ != pid) return false;
  pid_.reset();
  return true;
}

void PipeHolder::dismiss() {
  if (line_) tell(line_.get(), leave_word, {});
}

ForkedKeeper::ForkedKeeper(const RunDirectory& run, const Lease& lease)
    : PipeHolder(
          [&run, &lease](const ProcessInfo& agent, int line) { keep(run, lease, agent, line); }) {}

Status end_orphan_processes(ProcessTable& table, const RunDirectory& run) {
  const std::vector<AttemptGroup> groups = groups_of_run(run);
  ProcessMarks marks = marks_of_run(run);
  const auto survivors = kill_until_gone(table, [&] {
    marks.members = members_of(groups);
    auto found = find_attempt_processes(table, marks);
    if (found.empty()) return found;
    for (const ProcessInfo& process : found) {  // who forks now is in none but such a session
      if (process.pid == process.session) marks.begun_sessions.insert(process.session);
    }
    for (const AttemptGroup& group : groups) group.kill();
    return found;
  });
  if (!survivors.empty()) {
    return Error{"processes of an earlier agent survive SIGKILL: " + survivors.front() + " and " +
                 std::to_string(survivors.size() - 1) + " more; the node needs a reboot"};
  }
  for (const AttemptGroup& group : groups) group.remove();
  return Done{};
}

}  // namespace muster
