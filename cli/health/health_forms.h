// The forms in which `muster health` and its verbs give their result, and what is kept of it for
// monitors: one way for all of them.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "cli/health/health_report.h"
#include "cli/terminal/common_options.h"
#include "cli/terminal/document.h"

namespace muster {

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
