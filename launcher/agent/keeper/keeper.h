// The process that outlives the agent: it holds the ranks' pipes and the lease. While there are
// ranks there is one; one that was killed or is stopped is replaced. Owned by the agent's main
// function.
//
//   the agent dies        it ends what the agent left and moves the last output, unless another
//                         agent has taken the lock
//   the agent stands      once the lease is over it stops the agent, kills all that descends from
//   still                 it, proves them gone, and only then kills the agent: see above
//   the keeper dies or    its standby, which holds the same pipes, goes on in its place, whatever
//   stands still          the agent does; an agent that runs soon starts a new pair
#pragma once

#include <sys/types.h>

#include <functional>
#include <optional>
#include <set>
#include <vector>

#include "launcher/agent/node/process_scan.h"
#include "launcher/agent/node/run_directory.h"
#include "launcher/os/fd.h"
#include "runtime/protocol/lease.h"
#include "scheduler/model/result.h"

namespace muster {

class Keeper {
 public:
  virtual ~Keeper() = default;

  // Starts one where there is none that runs; it holds the pipes from its first moment.
  virtual Status ensure(const std::vector<int>& pipes) = 0;
  // Keeps what is in the ranks' pipes alive beyond the agent, until a pipe's name is gone. From the
  // call on, before the keeper has turned to it.
  virtual void hold(const std::vector<int>& pipes) = 0;
  // True when it was the keeper that died.
  virtual bool reaped(pid_t pid) = 0;
  virtual std::optional<pid_t> pid() const = 0;
};

// A forked child that holds pipes, and the line to it: the keeper of an agent, or its standby.
class PipeHolder : public Keeper {
 public:
  // What the child does; never returns. `line` is its end of the line.
  using Main = std::function<void(const ProcessInfo& parent, int line)>;

  explicit PipeHolder(Main main) : main_(std::move(main)) {}

  // One that was stopped is killed: the next one follows as soon as it is reaped.
  Status ensure(const std::vector<int>& pipes) override;
  void hold(const std::vector<int>& pipes) override;
  bool reaped(pid_t pid) override;
  std::optional<pid_t> pid() const override { return pid_; }
  // The parent ends orderly and leaves nothing.
  void dismiss();
  // Hung up when the holder is dead; -1 before the first.
  int line() const { return line_.get(); }

 private:
  Main main_;
  std::optional<pid_t> pid_;
  Fd line_;  // a byte with pipes: hold them, without: all is well
};

class ForkedKeeper final : public PipeHolder {
 public:
  ForkedKeeper(const RunDirectory& run, const Lease& lease);
};

// Ends an agent that stands still, and what it started, but for `keepers`. The ranks first: what
// holds the agent in the kernel may hold it for ever. The names of those that survive SIGKILL.
std::vector<std::string> end_standing_agent(ProcessTable& table, const ProcessInfo& agent,
                                            const std::set<pid_t>& keepers);

// Kills what a dead agent of this run directory left behind, before a new agent answers anyone, or
// in the keeper when nobody starts a new agent. Blocks until none of its processes exists; an Error
// names those that survive SIGKILL for too long.
Status end_orphan_processes(ProcessTable& table, const RunDirectory& run);

}  // namespace muster
