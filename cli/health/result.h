// What a node said when its health was asked: the text that `muster health run -o json`, or
// `active`, wrote there, read with distrust. What cannot be read is no answer, and no answer is
// never a pass. Pure.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "cli/health/health_report.h"
#include "cli/terminal/common_options.h"
#include "cli/terminal/document.h"
#include "health/learn/versions.h"
#include "health/model/performance.h"
#include "health/output/finding_report.h"

namespace muster {

// Worst first.
enum class NodeFitness { drained, unreachable, unclear, ok };
const char* word(NodeFitness fitness);

struct NodeAnswer {
  std::string node;
  std::string target;
  NodeFitness fitness = NodeFitness::unreachable;
  std::string why;  // a sentence; empty: ok
  std::string boot_id;
  std::string profile;  // empty: none
  std::string phase;
  bool beside_ranks = false;
  std::vector<FindingReport> reports;  // their host is the node
  NodeVersions versions;
  std::vector<PerformanceSample> figures;  // of a node that was measured
  std::string text;  // as it came; empty: it does not answer
};

NodeAnswer read_answer(const std::string& node, const std::string& target, std::string text,
                       const std::string& now);
// Its one finding is host.agent, unknown. `now`: utc_text.
NodeAnswer no_answer(const std::string& node, const std::string& target, const std::string& why,
                     const std::string& now);

// It was reached and not measured. `why`: "not started: " of one that a job has, or that is not
// idle, "not measured: " of one whose measurement failed. Each of the `checks` is unknown.
NodeAnswer not_measured(const std::string& node, const std::string& target, const std::string& why,
                        const std::vector<std::string>& checks, const std::string& now);

// The forms in which `muster health` and its verbs give their result, and what is kept of it for
// monitors: one way for all of them.

struct HealthForms {
  Time at;
  std::vector<FindingReport> for_monitors;  // Nagios, Prometheus
  std::function<std::string(const HealthTextForm&)> text;
  std::function<std::string()> lines;
  std::function<Document()> document;
  int first_readings = 0;  // counters that are judged from the next run on
  MonitorCode when_named = MonitorCode::critical;  // to Nagios, with exit code 1
};

// Empty, or what is wrong with the options.
std::string misused_query(const CommonOptions& common);

// Prints the form that is asked for; `code`, or the form's own exit code.
int tell_health(const HealthForms& forms, HealthExit code, bool all, const CommonOptions& common);

// 0, or 99 after saying why.
int write_prometheus_file(const std::string& path, const HealthForms& forms,
                          const CommonOptions& common);

}  // namespace muster
