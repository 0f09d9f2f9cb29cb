// What a drill did and found, for people and machines. Pure but for printing.
//
// JSON: {job, seed, calm_job, sandbox: bool, passed,
//        steps: [{line, what, at_s, outcome, done}], expectations: [{what, wanted, found, met}]}
// `at_s` is the time since the job was queued; null for a step that was never due.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/drill_verdict.h"
#include "cli/terminal/common_options.h"
#include "cli/terminal/document.h"
#include "scheduler/text/clock.h"

namespace muster {

struct DrilledStep {
  int line = 0;
  std::string what;
  std::optional<Milliseconds> at;
  std::string outcome;
  bool done = false;
};

struct DrillReport {
  std::string job;
  std::string calm_job;  // empty: none
  std::uint64_t seed = 0;
  bool sandbox = false;
  std::vector<DrilledStep> steps;
  std::vector<Verdict> verdicts;
  bool passed() const;
};

Document report_document(const DrillReport& report);
void print_drill_report(const DrillReport& report, const CommonOptions& common);

}  // namespace muster
