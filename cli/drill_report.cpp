#include "cli/drill_report.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/terminal/table.h"
#include "cli/terminal/terminal.h"
#include "scheduler/text/duration.h"

namespace muster {

namespace {

Document document_of(const DrilledStep& step) {
  Document out;
  out["line"] = step.line;
  out["what"] = step.what;
  out["at_s"] = step.at ? Document(static_cast<double>(step.at->count()) / 1000) : nullptr;
  out["outcome"] = step.outcome;
  out["done"] = step.done;
  return out;
}

Document document_of(const Verdict& verdict) {
  Document out;
  out["what"] = verdict.what;
  out["wanted"] = verdict.wanted;
  out["found"] = verdict.found;
  out["met"] = verdict.met;
  return out;
}

}  // namespace

bool DrillReport::passed() const {
  return std::all_of(steps.begin(), steps.end(), [](const auto& step) { return step.done; }) &&
         std::all_of(verdicts.begin(), verdicts.end(), [](const auto& each) { return each.met; });
}

Document report_document(const DrillReport& report) {
  Document out;
  out["job"] = report.job;
  out["seed"] = report.seed;
  out["calm_job"] = report.calm_job.empty() ? Document(nullptr) : Document(report.calm_job);
  out["sandbox"] = report.sandbox;
  out["passed"] = report.passed();
  out["steps"] = Document::array();
  for (const DrilledStep& step : report.steps) out["steps"].push_back(document_of(step));
  out["expectations"] = Document::array();
  for (const Verdict& verdict : report.verdicts) {
    out["expectations"].push_back(document_of(verdict));
  }
  return out;
}

void print_drill_report(const DrillReport& report, const CommonOptions& common) {
  const int width = is_terminal(Stream::out) ? terminal_width(Stream::out) : 0;
  const bool color = wants_color(common.color, Stream::out);
  Table steps({"LINE", "AT", "ACTION", "OUTCOME"});
  for (const DrilledStep& step : report.steps) {
    steps.add({std::to_string(step.line), step.at ? elapsed_text(*step.at) : "", step.what,
               step.outcome});
  }
  Table verdicts({"EXPECTED", "WANTED", "FOUND", "MET"});
  for (const Verdict& verdict : report.verdicts) {
    verdicts.add({verdict.what, verdict.wanted, verdict.found, verdict.met ? "yes" : "NO"});
  }
  std::string text = "job " + report.job + ", seed " + std::to_string(report.seed) + "\n";
  if (!steps.empty()) text += steps.text(width, color);
  if (!verdicts.empty()) text += verdicts.text(width, color);
  text += report.passed() ? "passed\n" : "FAILED\n";
  write_all(Stream::out, text);
}

}  // namespace muster
