// Who may use this node besides looking at it: a job that comes, with its checks and its gate's
// benchmarks; a benchmark that a person asks for; a command that resets or reboots the node. Each
// ends what must not go on beside it, and waits in a queue until nothing of that is left. Owned by
// Agent, on its thread.
//
//   CheckNode    ends what others measure ─► queue ─► health, files ─► gate benchmark ─► CheckDone
//   MeasureNode  ends gates               ─► queue ─► measures, or is refused
//   RunRemedy    ends both                ─► queue ─► is begun, or is refused
//   LookAtHealth                          beside anything but a reset or reboot
#pragma once

#include <deque>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "launcher/agent/attempt/attempt.h"
#include "launcher/agent/exec/sessions.h"
#include "launcher/agent/health/command.h"
#include "launcher/agent/health/gate_benchmark.h"
#include "launcher/agent/health/monitor.h"
#include "launcher/agent/health/remediation.h"
#include "launcher/agent/node/child_tasks.h"

namespace muster {

class NodeUse {
 public:
  // What the rest of the agent knows and does.
  struct Owner {
    std::function<bool()> runs_ranks;
    std::function<bool()> is_leaving;
    std::function<void()> on_decided;  // is_deciding() is over
    std::function<void()> on_waiting;  // something waits: it is polled oftener
  };

  NodeUse(const AgentSite& site, ChildTasks& tasks, ExecSessions& execs, Owner owner);

  void handle(const CheckNode& request, std::string_view);
  void handle(const MeasureNode& request, std::string_view);
  void handle(const RunRemedy& request, std::string_view);
  void handle(const LookAtHealth& request, std::string_view);
  void handle(const WatchHealth& request, std::string_view) { follow(request.health); }
  void handle(const FaultsFixed& request, std::string_view);

  // From each greeting; says what is believed.
  void follow(const std::optional<HealthProfile>& profile);
  void ranks_begin(const JobHealth& job);
  void ranks_killed() { health_.ranks_killed(); }
  void rank_died(const AttemptKey& attempt) { health_.rank_died(attempt); }
  bool is_deciding(const AttemptKey& attempt) const { return health_.is_deciding(attempt); }
  // Ranks have begun, or nothing of them is left.
  void note_ranks() { health_.set_idle(!owner_.runs_ranks()); }
  // Nobody waits for its gate any more.
  void attempt_over(const AttemptKey& attempt);
  void stop(const std::string& id);  // whoever asked for a look or a benchmark goes
  void line_lost();
  void end();  // the agent goes

  // Twice a second, and oftener while it is busy.
  void poll();
  bool is_busy() const { return !queue_.empty() || remediation_.is_under_way(); }
  // A reset that is killed in the middle leaves a GPU that nothing but a reboot brings back.
  bool must_not_be_killed() const { return remediation_.is_under_way(); }
  // It, or what is left of it, may be in the way of ranks.
  bool is_remediated() const { return remediation_.is_running(); }
  bool reaped(const DeadChild& child);
  std::set<pid_t> sessions() const;  // no processes of any attempt

 private:
  struct Check {
    CheckNode request;
    std::int64_t asked_ms = 0;
  };
  using Request = std::variant<Check, MeasureNode, RunRemedy, CheckDone>;

  void wait(Request request);
  void serve_queue();
  void serve(const Check& check);
  void serve(const MeasureNode& request);
  void serve(const RunRemedy& request);
  void serve(const CheckDone& done);

  void check_files(Check check, std::vector<CheckFailure> failures);
  void checked(const Check& check, std::string frame);
  bool end_check(const AttemptKey& attempt);
  void end_benchmarks_of_others(const JobId& job);
  void end_gates();
  void drop_benchmarks(const std::string& id = {});  // without one: all
  bool remedy_is_due() const;
  std::optional<std::string> blocking_reason(const RunRemedy& request) const;

  const AgentSite& site_;
  ChildTasks& tasks_;
  ExecSessions& execs_;
  Owner owner_;
  EndingSessions ended_benchmarks_;  // what looks and gates ended or left
  HealthCommand command_;
  GateBenchmark gate_;
  std::multiset<AttemptKey> checks_;  // under way, each time one was asked for
  std::deque<Request> queue_;         // for what was ended to be gone
  HealthMonitor health_;
  Remediation remediation_;
};

}  // namespace muster
