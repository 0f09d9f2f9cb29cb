#include "cli/health/health_forms.h"

#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>

#include "cli/terminal/terminal.h"
#include "health/output/nagios.h"
#include "health/output/prometheus.h"
#include "launcher/os/read_file.h"
#include "scheduler/model/exit_code.h"

namespace muster {

std::string misused_query(const CommonOptions& common) {
  const bool is_for_monitors = common.output == OutputFormat::nagios ||
                               common.output == OutputFormat::prometheus ||
                               common.output == OutputFormat::jsonl;
  return is_for_monitors && !common.query.empty() ? "--query goes with json, yaml and tsv" : "";
}

int tell_health(const HealthForms& forms, HealthExit code, bool all, const CommonOptions& common) {
  if (common.output == OutputFormat::nagios) {
    const PluginAnswer answer =
        nagios_answer(forms.for_monitors, HostNames::left_out, forms.first_readings,
                      monitor_code(code, forms.when_named));
    write_all(Stream::out, answer.line + "\n");
    return answer.exit_code;
  }
  if (common.output == OutputFormat::prometheus) {
    write_all(Stream::out, prometheus_text(forms.for_monitors, forms.at));
  } else if (common.output == OutputFormat::jsonl) {
    write_all(Stream::out, forms.lines());
  } else if (wants_table(common)) {
    const int width = is_terminal(Stream::out) ? terminal_width(Stream::out) : 0;
    const bool color = wants_color(common.color, Stream::out);
    write_all(Stream::out, forms.text({all, width, color}));
  } else {
    const Document document = forms.document();
    const bool is_lines = common.output == OutputFormat::tsv && common.query.empty();
    const int printed = print_document(is_lines ? document["findings"] : document, common);
    if (printed != 0) return printed;
  }
  return static_cast<int>(code);
}

int write_prometheus_file(const std::string& path, const HealthForms& forms,
                          const CommonOptions& common) {
  if (path.empty()) return 0;
  constexpr mode_t readable = 0644;
  const std::string text = prometheus_text(forms.for_monitors, forms.at);
  if (replace_file(path, text, readable, Durable::in_cache)) return 0;
  complain("cannot write " + path + ": " + std::strerror(errno), common);
  return static_cast<int>(ExitCode::internal);
}

}  // namespace muster
