#include "cli/health/health_learn.h"

#include "cli/health/health_measure.h"
#include "cli/job/check.h"
#include "cli/terminal/exit_status.h"
#include "cli/terminal/new_file.h"
#include "cli/terminal/terminal.h"
#include "health/checks/check_names.h"
#include "health/learn/facts.h"
#include "scheduler/model/exit_code.h"
#include "templates/profile/reader.h"

namespace muster {

namespace {

std::string profile_name(const std::string& host) {
  std::string name = "learned-" + host.substr(0, host.find('.'));
  for (char& c : name) {
    const bool is_plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                          (c >= '0' && c <= '9') || c == '-' || c == '_';
    if (!is_plain) c = '-';
  }
  return name;
}

// A profile that its own reader refuses is of no use: a source told nonsense.
bool reads_back(const std::string& text, const CommonOptions& common) {
  const auto findings = read_health_profile("profile", text, names_of_checks()).findings;
  if (!has_errors(findings)) return true;
  print_findings(findings, common);
  complain("what was read makes no profile: is this node healthy?", common);
  return false;
}

void tell_left_out(const LearnedNode& node, const HealthSources& sources,
                   const CommonOptions& common) {
  for (const HungSource& hung : sources.hung()) {
    notice("hung: " + hung.source + ": " + hung.why, common);
  }
  for (const std::string& one : node.left_out) notice("left out: " + one, common);
}

// A number that is missing on one device makes no floor.
int learn_floors(HealthSources& sources, const HealthLearnOptions& options, LearnedFacts& facts,
                 const CommonOptions& common) {
  if (!options.measure) {
    notice("left out: floors: how fast its devices are was not measured; --measure does", common);
    return 0;
  }
  if (!sources.is_this_host()) {
    complain("--measure goes with this host alone, not with a recorded one", common);
    return usage_error;
  }
  MeasureWanted wanted;
  wanted.learns = true;
  wanted.disk_directory = options.disk;
  wanted.force = options.force;
  const auto measured = measure_node(sources, learn_profile(facts), wanted, common);
  if (const auto* no = std::get_if<MeasureRefused>(&measured)) return no->exit_code;
  const auto& samples = std::get<ProbeFigures>(measured).samples;
  const std::string& busy = std::get<ProbeFigures>(measured).busy;
  if (!busy.empty())
    notice("measured on a host that is not idle (" + busy + "): floors are low", common);
  facts.measured = worst_values(samples);
  for (const PerformanceSample& one : samples) {
    if (!one.value) notice("left out: floors: " + one.metric + ": " + one.error, common);
  }
  return 0;
}

}  // namespace

int learn_health(const HealthSourcesOptions& where, const HealthLearnOptions& options,
                 const CommonOptions& common) {
  HealthSources sources(where);
  const std::string name = options.name.empty() ? profile_name(sources.host()) : options.name;
  NodeReadings readings = sources.read(learning_request());
  LearnedNode node = facts_of(readings, name);
  const int refused = learn_floors(sources, options, node.facts, common);
  if (refused != 0) return refused;
  const std::string text = write_health_profile(learn_profile(node.facts));
  if (!reads_back(text, common)) return static_cast<int>(ExitCode::internal);
  tell_left_out(node, sources, common);
  if (options.file.empty()) {
    write_all(Stream::out, text);
    return 0;
  }
  const int code = write_new_file(options.file, text, common);
  if (code == 0) {
    notice("wrote " + options.file + "; next: muster health --profile " + options.file, common);
  }
  return code;
}

}  // namespace muster
