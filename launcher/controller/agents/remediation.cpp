#include "launcher/controller/agents/remediation.h"

#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>

#include "launcher/controller/agents/inbox.h"
#include "launcher/os/child.h"
#include "launcher/os/fd.h"
#include "scheduler/model/record.h"
#include "scheduler/node/remediation_run.h"
#include "scheduler/state/lookup.h"
#include "scheduler/text/text.h"

namespace muster {

namespace {

RemedyEnded within_limits(RemedyEnded ended) {
  limit_text(ended.error);
  limit_lines(ended.lines);
  return ended;
}

// For a command that may be begun yet: what is asked late must not run when it counts as failed,
// nor on a node that a person has taken or calls sound. 0: its agent only tells what it knows.
Milliseconds time_left(const Node& node, Time now) {
  if (node.drained || !node.fault_drain) return Milliseconds{0};
  const Milliseconds limit = command_limit(node.remedy->what.step);
  return std::clamp(node.remedy->since + limit - now, Milliseconds{0}, limit);
}

constexpr std::size_t lines_told = 10;
// Until then it is as if it went on; its output waits in a pipe of 64 KiB.
constexpr Milliseconds command_look_pause{50};

}  // namespace

RemediationService::RemediationService(Timers& timers, const State& state, AgentPool& pool,
                                       RunCommand run, Observer& observer)
    : timers_(timers), state_(state), pool_(pool), run_(std::move(run)), observer_(observer) {}

void RemediationService::perform(const std::vector<Record>& fresh) {
  for (const Record& record : fresh) {
    const auto* begun = record_as<RemedyBegun>(record);
    if (begun != nullptr && begun->step == RemedyStep::reboot_from_here) run_here(*begun);
  }
  for (const auto& [id, node] : state_.nodes) {
    if (!node.remedy || node.remedy->ended) continue;
    if (node.remedy->what.step != RemedyStep::reboot_from_here) ask(node);
  }
}

// Another agent than the one that was meant knows nothing of what that one has done.
void RemediationService::ask(const Node& node) {
  const RemedyBegun& begun = node.remedy->what;
  const LinkUp* agent = linked_agent(state_, node.id);
  AgentConnection* connection = pool_.up(node.id);
  if (connection == nullptr || agent == nullptr) return;
  if (agent->agent_id != begun.agent_id || connection->welcome().agent_id != begun.agent_id) return;
  std::string& asked = asked_[node.id];
  if (asked == begun.id) return;
  asked = begun.id;
  pool_.send(node.id, RunRemedy{begun.id, begun.step, begun.fault.device, begun.argv,
                                time_left(node, timers_.wall_now())});
}

void RemediationService::run_here(const RemedyBegun& begun) {
  if (!run_) return;
  run_(begun.argv, command_limit(begun.step),
       [this, node = begun.node, id = begun.id](const CommandEnded& ended) {
         observer_.observe(within_limits({node, id, ended.status, ended.error, ended.lines}));
       });
}

void RemediationService::node_down(const NodeId& node, const LinkFailure&) {
  asked_.erase(node);
}

bool RemediationService::take(const NodeId& node, const FromAgent& message, std::string_view) {
  const auto* run = std::get_if<RemedyRun>(&message);
  if (run == nullptr) return false;
  const Node* known = find_node(state_, node);
  const bool is_awaited = known != nullptr && known->remedy && !known->remedy->ended &&
                          known->remedy->what.id == run->id;
  if (is_awaited) {
    observer_.observe(within_limits({node, run->id, run->status, run->error, run->lines}));
  }
  return true;
}

struct SiteCommands::Running {
  pid_t pid = 0;
  Fd output;
  std::string text;
  Milliseconds limit{0};
  SteadyTime until;
  std::unique_ptr<Alarm> next_look;
  std::function<void(const CommandEnded&)> done;  // null: it was told

  void tell(ExitStatus status, std::string error) {
    const auto told = std::exchange(done, nullptr);
    if (told) told({status, std::move(error), last_utf8_lines(text, lines_told)});
  }
};

SiteCommands::SiteCommands(Timers& timers) : timers_(timers) {}

SiteCommands::~SiteCommands() {
  for (const auto& [number, running] : running_) ::kill(-running->pid, SIGKILL);
}

std::function<void()> SiteCommands::run(const std::vector<std::string>& argv, Milliseconds limit,
                                        std::function<void(const CommandEnded&)> done) {
  auto started = start(argv);
  if (!started) {
    timers_.post([done = std::move(done), why = started.error().message] {
      done({{127, 0}, "its command: " + why, {}});
    });
    return [] {};
  }
  const int number = next_++;
  Running& running = *(running_[number] = std::move(*started));
  running.limit = limit;
  running.until = timers_.now() + limit;
  running.done = std::move(done);
  running.next_look = timers_.after(command_look_pause, [this, number] { look(number); });
  return [this, number] { kill(number); };
}

void SiteCommands::kill(int number) {
  const auto found = running_.find(number);
  if (found == running_.end()) return;
  found->second->done = nullptr;
  ::kill(-found->second->pid, SIGKILL);
}

Result<std::unique_ptr<SiteCommands::Running>> SiteCommands::start(
    const std::vector<std::string>& argv) {
  auto pipe = tail_pipe();
  if (!pipe) return Error{std::string("cannot make a pipe: ") + std::strerror(errno)};
  auto running = std::make_unique<Running>();
  running->output = std::move(pipe->read_end);
  const int write_end = pipe->write_end.get();
  const std::array inherited{Inherit{write_end, 1}, Inherit{write_end, 2}};
  const auto child = spawn(argv, inherited);
  if (!child) return child.error();
  running->pid = *child;
  return running;
}

// What a command leaves in the background may keep its output open, and is not waited for.
void SiteCommands::look(int number) {
  Running& running = *running_.at(number);
  int wait_status = 0;
  const pid_t ended = ::waitpid(running.pid, &wait_status, WNOHANG);
  read_tail(running.output.get(), running.text);
  if (ended == 0) {
    end_late(running);
    running.next_look = timers_.after(command_look_pause, [this, number] { look(number); });
    return;
  }
  const std::unique_ptr<Running> over = std::move(running_.at(number));
  running_.erase(number);
  if (ended < 0) return over->tell({127, 0}, "its command: its exit status is lost");
  over->tell(exit_status_of(wait_status), "");
}

void SiteCommands::end_late(Running& running) {
  if (timers_.now() < running.until || !running.done) return;
  ::kill(-running.pid, SIGKILL);
  running.tell({0, SIGKILL}, "its command did not end within " +
                                 std::to_string(running.limit.count() / 1000) + " s");
}

}  // namespace muster
