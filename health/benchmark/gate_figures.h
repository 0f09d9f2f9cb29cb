// What a job's gate measures and what it makes of it (`health.start: full`): the probes of one node
// that the profile has floors for, each as seldom as its figures keep. A floor that the site wrote
// down and a job asks for is held: unless the profile says `observe` or `off` of its check, a
// figure that does not meet it keeps the job away, once it was measured twice: a node is idle at
// its gate, but seldom for long. Disks are left out: nobody names their directory. Pure.
#pragma once

#include <chrono>
#include <span>
#include <string>
#include <vector>

#include "health/benchmark/plan.h"
#include "health/model/performance.h"
#include "health/model/profile.h"
#include "health/monitor/check_run.h"
#include "scheduler/model/outcome.h"

namespace muster {

// Hardware seldom becomes slow, and a gate is in a job's way: twice a day.
inline constexpr std::chrono::hours figures_keep{12};
// Somebody may mend it at any time; a job that waits for nodes asks every half minute. So long it
// is remembered as well of a figure that it could not be had, and why.
inline constexpr std::chrono::minutes bad_figures_keep{10};
// Of a gate, however many probes hang: the scheduler's own limit for gates is 15 min.
inline constexpr std::chrono::minutes gate_measuring_limit{13};

struct GateFigure {
  PerformanceSample sample;         // without a value: it could not be had
  std::chrono::milliseconds at{0};  // since the node's boot
  bool was_bad_before = false;      // and was measured again because of that

  // As an agent keeps it.
  template <class Self, class Visit>
  static void fields(Self& self, Visit visit) {
    visit("metric", self.sample.metric);
    visit("device", self.sample.device);
    visit("value", self.sample.value);
    visit("error", self.sample.error);
    visit("at_ms", self.at);
    visit("was_bad_before", self.was_bad_before);
  }
};

// As expected_plan: of a node that nobody has looked at. Without the checks that do not count.
ProbePlan gate_plan(const HealthProfile& profile, const CheckChoice& choice);

// The names of the probes of the plan that have to run: a figure of theirs is not known, or old.
std::vector<std::string> probes_due(const HealthProfile& profile, const ProbePlan& plan,
                                    std::span<const GateFigure> known,
                                    std::chrono::milliseconds now);

// Those of the plan whose figures would keep the job away, but were measured only once.
std::vector<std::string> probes_doubted(const HealthProfile& profile, const ProbePlan& plan,
                                        std::span<const GateFigure> known);

// What was measured now, beside what is known.
std::vector<GateFigure> figures_taken(const HealthProfile& profile,
                                      std::span<const GateFigure> known,
                                      const std::vector<PerformanceSample>& samples,
                                      std::chrono::milliseconds now);

// Of figures that are doubted: that they were not measured again, and why.
void give_up_doubted(std::vector<GateFigure>& figures, const HealthProfile& profile,
                     const std::string& why);

// Why the job cannot start here. What the plan wants and no figure says, or one that is doubted, is
// unknown: that keeps the job away where the profile requires the check.
std::vector<CheckFailure> judge_gate_figures(const HealthProfile& profile, const ProbePlan& plan,
                                             std::span<const GateFigure> figures);

}  // namespace muster
