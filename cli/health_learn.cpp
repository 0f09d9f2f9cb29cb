#include "cli/health_learn.h"

#include "cli/health_sources.h"
#include "cli/job_check.h"
#include "cli/new_file.h"
#include "cli/terminal.h"
#include "health/check_names.h"
#include "health/learned_facts.h"
#include "scheduler/model/exit_code.h"
#include "templates/health_profile.h"

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
  notice("left out: floors: how fast its devices are was not measured", common);
}

}  // namespace

int learn_health(const HealthLearnOptions& options, const CommonOptions& common) {
  HealthSources sources(own_sources(options.root));
  const std::string name = options.name.empty() ? profile_name(sources.host()) : options.name;
  NodeReadings readings = sources.read(learning_request());
  const LearnedNode node = facts_of(readings, name);
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
