// Carries out what the core has begun: hands a node's agent its command, again after a reconnection
// (the agent does it once), and runs commands of the controller's own host. Those are run when they
// were begun and never again: what a controller before has run, or not, is told by the node's next
// boot. Owned by the Controller, on its thread.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "launcher/controller/agents/pool.h"
#include "launcher/os/timers.h"
#include "scheduler/state/state.h"

namespace muster {

// How a command on this host ended; error: it was not started, or was killed (then with a signal).
struct CommandEnded {
  ExitStatus status;
  std::string error;
  std::vector<std::string> lines;  // the last that it wrote
};

// Runs a command of this host without holding up the caller, and kills it when its time is over, or
// when what is returned is called.
using RunCommand = std::function<std::function<void()>(
    const std::vector<std::string>& argv, Milliseconds limit,
    std::function<void(const CommandEnded&)> done)>;

class RemediationService final : public NodeListener {
 public:
  RemediationService(Timers& timers, const State& state, AgentPool& pool, RunCommand run,
                     Observer& observer);

  // `fresh`: what has just been journaled.
  void perform(const std::vector<Record>& fresh);
  void node_down(const NodeId& node, const LinkFailure& failure) override;
  bool take(const NodeId& node, const FromAgent& message, std::string_view payload) override;

 private:
  void ask(const Node& node);
  void run_here(const RemedyBegun& begun);

  Timers& timers_;
  const State& state_;
  AgentPool& pool_;
  RunCommand run_;
  Observer& observer_;
  std::map<NodeId, std::string> asked_;  // on this connection
};

// Commands of the site that run on the controller's host, as children of it. Owned by the
// controller's process, on its thread, which they never hold up: one that cannot be killed, because
// it runs as root or hangs in the kernel, is told of and looked after until it is gone.
//
//   run ─► it ended: told ─► reaped
//      └─ too late: killed, told ─► reaped, some day
class SiteCommands {
 public:
  explicit SiteCommands(Timers& timers);
  ~SiteCommands();  // kills those that run

  // What is returned kills it, and nobody is told.
  std::function<void()> run(const std::vector<std::string>& argv, Milliseconds limit,
                            std::function<void(const CommandEnded&)> done);

 private:
  struct Running;
  Result<std::unique_ptr<Running>> start(const std::vector<std::string>& argv);
  void look(int number);
  void kill(int number);
  void end_late(Running& running);

  Timers& timers_;
  std::map<int, std::unique_ptr<Running>> running_;
  int next_ = 1;
};

}  // namespace muster
