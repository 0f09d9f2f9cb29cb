// What a job's gate measures (health.start, health.failure: full): `muster health benchmark` in a
// child that can be killed, for figures that are not known from earlier on this boot. Alone: beside
// no ranks, and not while another agent of the host measures. What is bad is measured again at
// once. Owned by Agent, on its thread.
//
//                                     ┌── bad, and not seen before ──┐
//                                     ▼                              │
//   asked ─► waits for its turn on the host ─► measures ─────────────┴─► judged ─► asked the next
//      └───► all is known ─► judged
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "health/benchmark/gate_figures.h"
#include "health/model/performance.h"
#include "launcher/agent/exec/sessions.h"
#include "launcher/agent/health/command.h"
#include "launcher/agent/keeper/layout.h"
#include "launcher/agent/node/child_tasks.h"
#include "runtime/protocol/boot_clock.h"
#include "scheduler/model/result.h"

namespace muster {

class GateBenchmark {
 public:
  struct Site {
    std::string directory;             // for the profile and the figures
    std::vector<std::string> program;  // before `health benchmark`
    std::string boot_id;
  };
  struct Wanted {
    HealthProfile profile;
    CheckChoice choice;
    std::optional<std::chrono::milliseconds> since;  // of this boot; older figures are not believed
  };
  using Done = std::function<void(std::vector<CheckFailure>)>;

  // `ending`: what was measured before, for whomever. It outlives this.
  GateBenchmark(ChildTasks& tasks, EndingSessions& ending, Site site);

  // Of an attempt that asks again only the latest is answered.
  // `hindrance`: why nothing can be measured now; what is known counts then.
  void ask(const AttemptKey& attempt, Wanted wanted, Done done, std::string hindrance = {});
  bool is_asked(const AttemptKey& attempt) const;
  void leave(const AttemptKey& attempt);  // it is over: nobody waits for the answer
  void job_comes(const JobId& job);       // no other has the node: nobody waits for their answers
  void ranks_begin();                     // nothing is measured beside them
  void end();                             // the agent goes
  void faults_fixed();                    // a person says so: what was slow is measured anew
  void poll();                            // twice a second: whose turn it is
  void give_back();                       // the claim, when nothing of what measured is left
  std::optional<pid_t> session() const;   // of what runs: no process of any attempt

 private:
  struct Question {
    AttemptKey attempt;
    Wanted wanted;
    ProbePlan plan;
    Done done;
    std::string hindrance;
    BootTime until{};
    int runs = 0;
    std::vector<std::string> doubted{};  // probes to be run again
  };

  // Why the first question cannot be measured for, however long it waits; empty: it can.
  std::string blocking_reason(const Question& question) const;
  bool measure(Question& question, std::vector<std::string> probes);  // false: not its turn
  void measured(const Result<std::string>& said);
  std::vector<GateFigure> believed(const Question& question) const;
  bool take(const std::string& text);  // false: it could not be read, which is answered
  void miss(const std::string& why);
  void answer(std::string why_not_measured);  // the first question
  static void add_unmeasured(std::vector<GateFigure>& figures, const Question& question,
                             const std::string& why);
  void end_run();
  void load();
  void save() const;

  ChildTasks& tasks_;
  Site site_;
  std::vector<GateFigure> figures_;
  std::deque<Question> questions_;  // the first one is measured for
  std::optional<ChildTasks::TaskId> run_;
  bool is_cut_ = false;     // the run has less time than it may need: it waited for its turn
  pid_t session_ = 0;       // of the run
  EndingSessions& ending_;  // earlier ones have the claim until they are gone
  std::uint64_t runs_ = 0;
  BenchmarkClaim claim_;
};

// The figures in what `muster health benchmark -o json` wrote, by a child or on another node: read
// with distrust, whoever asked for them. Pure.

// An Error: it is no such text, or one of its figures makes no sense.
Result<std::vector<PerformanceSample>> read_measured(std::string_view text);

}  // namespace muster
