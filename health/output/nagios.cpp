#include "health/output/nagios.h"

#include <array>
#include <string_view>

#include "health/output/finding_report.h"

namespace muster {

namespace {

constexpr std::array<std::string_view, 4> code_words{"OK", "WARNING", "CRITICAL", "UNKNOWN"};

std::size_t index_of(MonitorCode code) {
  return static_cast<std::size_t>(code);
}

// `|` begins the numbers.
std::string on_one_line(std::string text) {
  for (char& c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte > 0x7e || c == '|') c = c == '|' ? '/' : '?';
  }
  return text;
}

std::string sentence_of(const FindingReport& report, HostNames hosts) {
  std::string text = hosts == HostNames::told ? report.host + " " : "";
  text += report.check;
  if (!report.device.empty()) text += " " + report.device;
  const std::string value = value_text(report);
  if (report.code == MonitorCode::unknown) {
    const std::string why = report.evidence.empty() ? value : report.evidence.front();
    return text + " unknown" + (why.empty() ? "" : ": " + why);
  }
  if (!value.empty()) text += " " + value;
  if (!report.expected.empty()) text += " (expected " + report.expected + ")";
  return text;
}

std::string list_of(const std::vector<FindingReport>& worst_ones, HostNames hosts) {
  std::string text;
  std::size_t told = 0;
  for (const FindingReport& report : worst_ones) {
    if (report.code == MonitorCode::ok) break;
    const std::string next = on_one_line(sentence_of(report, hosts));
    if (told > 0 && text.size() + next.size() > nagios_text_most) break;
    text += (told > 0 ? ", " : "") + next.substr(0, nagios_text_most);
    told += 1;
  }
  std::size_t all = 0;
  for (const FindingReport& report : worst_ones) all += report.code != MonitorCode::ok;
  if (all > told) text += ", " + std::to_string(all - told) + " more";
  return text;
}

std::string all_well_text(std::size_t reports, int first_readings) {
  const std::string counters =
      first_readings == 0
          ? ""
          : std::to_string(first_readings) + (first_readings == 1 ? " counter" : " counters") +
                " read for the first time, to be judged from the next run on";
  if (reports > 0) return "all checks pass" + (counters.empty() ? "" : "; " + counters);
  return counters.empty() ? "nothing was checked" : "first run: " + counters;
}

std::string totals_of(const std::vector<FindingReport>& reports) {
  std::array<std::size_t, 4> counts{};
  for (const FindingReport& report : reports) counts.at(index_of(report.code)) += 1;
  return "checks=" + std::to_string(reports.size()) + " ok=" + std::to_string(counts[0]) +
         " warning=" + std::to_string(counts[1]) + " critical=" + std::to_string(counts[2]) +
         " unknown=" + std::to_string(counts[3]);
}

}  // namespace

PluginAnswer nagios_answer(const std::vector<FindingReport>& reports, HostNames hosts,
                           int first_readings, std::optional<MonitorCode> verdict) {
  const bool is_nothing = reports.empty() && first_readings == 0;
  MonitorCode worst = is_nothing ? MonitorCode::unknown : verdict.value_or(MonitorCode::ok);
  for (const FindingReport& report : reports) {
    const bool counts =
        !verdict || (verdict == MonitorCode::ok && report.code != MonitorCode::unknown);
    if (counts) worst = worst_code(worst, report.code);
  }
  std::string told = list_of(worst_first(reports), hosts);
  if (told.empty()) told = all_well_text(reports.size(), first_readings);
  return {"MUSTER " + std::string(code_words.at(index_of(worst))) + " - " + told + " | " +
              totals_of(reports),
          static_cast<int>(worst)};
}

}  // namespace muster
