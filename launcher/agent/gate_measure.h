// What a job's gate measures (health.start, health.failure: full): `muster health active` in a
// child that can be killed, for figures that are not known from earlier on this boot. Alone: beside
// no ranks, and not while another agent of the host measures. Owned by Agent, on its thread.
//
//   asked ─► waits for its turn on the host ─► measures ─► judged ─► asked the next
//      └───► all is known ─► judged
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "health/active/gate_figures.h"
#include "launcher/agent/attempt_layout.h"
#include "launcher/agent/boot_clock.h"
#include "launcher/agent/child_tasks.h"
#include "launcher/agent/ending_sessions.h"
#include "launcher/agent/measure_claim.h"

namespace muster {

class GateMeasure {
 public:
  struct Site {
    std::string directory;             // for the profile and the figures
    std::vector<std::string> program;  // before `health active`
    std::string boot_id;
  };
  struct Wanted {
    HealthProfile profile;
    CheckChoice choice;
    std::optional<std::chrono::milliseconds> since;  // of this boot; older figures are not believed
  };
  using Done = std::function<void(std::vector<CheckFailure>)>;

  GateMeasure(ChildTasks& tasks, Site site);

  // Of an attempt that asks again only the latest is answered.
  // `hindrance`: why nothing can be measured now; what is known counts then.
  void ask(const AttemptKey& attempt, Wanted wanted, Done done, std::string hindrance = {});
  bool is_asked(const AttemptKey& attempt) const;
  void leave(const AttemptKey& attempt);  // it is over: nobody waits for the answer
  void ranks_begin();                     // nothing is measured beside them
  void mended();                          // a person says so: what was slow is measured anew
  void poll();                            // twice a second: whose turn it is
  // What was killed is gone, or will not go.
  bool are_killed_gone() { return ending_.are_gone(); }
  std::set<pid_t> sessions() const;  // no process of any attempt

 private:
  struct Question {
    AttemptKey attempt;
    Wanted wanted;
    ProbePlan plan;
    Done done;
    std::string hindrance;
    BootTime until{};
  };

  void go_on();
  bool measure(const Question& question, std::vector<std::string> probes);  // false: not its turn
  void measured(const Result<std::string>& said);
  std::vector<GateFigure> believed(const Question& question) const;
  void take(const std::string& text);
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
  bool is_cut_ = false;    // the run has less time than it may need: it waited for its turn
  pid_t session_ = 0;      // of the run
  EndingSessions ending_;  // of earlier ones, which have the claim until they are gone
  std::uint64_t runs_ = 0;
  MeasureClaim claim_;
};

}  // namespace muster
