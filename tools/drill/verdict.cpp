#include "tools/drill/verdict.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <sstream>

#include "cli/terminal/table.h"
#include "cli/terminal/terminal.h"
#include "launcher/os/read_file.h"
#include "scheduler/text/duration.h"
#include "scheduler/text/text.h"

namespace muster {

namespace {

namespace fs = std::filesystem;

// Paths of regular files, relative.
std::set<std::string> files_below(const fs::path& folder) {
  std::set<std::string> files;
  std::error_code ignored;
  for (fs::recursive_directory_iterator entry(folder, ignored), end; !ignored && entry != end;
       entry.increment(ignored)) {
    if (entry->is_regular_file(ignored)) {
      files.insert(entry->path().lexically_relative(folder).string());
    }
  }
  return files;
}

Verdict number_verdict(const char* what, const NumberTest& wanted, std::int64_t found) {
  return {what, wanted.text(), std::to_string(found), wanted.holds(found)};
}

Verdict explain_verdict(const std::string& wanted, const std::vector<std::string>& lines) {
  const bool met = std::any_of(lines.begin(), lines.end(),
                               [&](const std::string& line) { return mentions(line, wanted); });
  return {"explain", wanted, met ? "said" : "not said", met};
}

Verdict leftovers_verdict(const std::vector<std::string>& leftovers) {
  return {"no_process_left", "none", leftovers.empty() ? "none" : joined(leftovers),
          leftovers.empty()};
}

Verdict outputs_verdict(const DrillExpectations& expect, const DrillFacts& facts) {
  const std::string differs =
      difference(facts.calm / "outputs", facts.job / "outputs", expect.equal_paths);
  return {"outputs_equal", "those of the reference run", differs.empty() ? "equal" : differs,
          differs.empty()};
}

// Logs of every rank of every attempt.
std::vector<fs::path> rank_logs(const fs::path& job) {
  std::vector<fs::path> logs;
  for (const std::string& file : files_below(job)) {
    const fs::path path(file);
    const std::string folder = path.parent_path().string();
    const std::string name = path.filename().string();
    if (folder.starts_with("attempt-") && name.starts_with("rank-") && name.ends_with(".log")) {
      logs.push_back(path);
    }
  }
  return logs;
}

Verdict counts_verdict(const std::string& pattern, const fs::path& job) {
  std::int64_t numbers = 0;
  for (const fs::path& log : rank_logs(job)) {
    const std::string gap = gap_in(text_of_file(job / log), pattern, numbers);
    if (!gap.empty()) return {"log_counts", pattern, log.string() + ": " + gap, false};
  }
  return {"log_counts", pattern, std::to_string(numbers) + " lines", numbers > 0};
}

// The number where the pattern has {n}; nothing: another line.
std::optional<std::int64_t> number_in(std::string_view line, std::string_view before,
                                      std::string_view after) {
  if (!line.starts_with(before) || !line.ends_with(after)) return std::nullopt;
  if (line.size() < before.size() + after.size()) return std::nullopt;
  line.remove_prefix(before.size());
  line.remove_suffix(after.size());
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), number);
  if (error != std::errc() || end != line.data() + line.size()) return std::nullopt;
  return number;
}

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

std::string difference(const fs::path& one, const fs::path& other,
                       const std::vector<std::string>& paths) {
  std::set<std::string> wanted(paths.begin(), paths.end());
  if (wanted.empty()) {
    wanted = files_below(one);
    if (wanted.empty()) return "the reference run left none";
    for (const std::string& file : files_below(other)) {
      if (!wanted.contains(file)) return file + " is only in the disturbed run";
    }
  }
  std::error_code ignored;
  for (const std::string& file : wanted) {
    if (!fs::is_regular_file(one / file, ignored)) return file + " is not in the reference run";
    if (!fs::is_regular_file(other / file, ignored)) return file + " is not in the disturbed run";
    if (text_of_file(one / file) != text_of_file(other / file)) return file + " differs";
  }
  return "";
}

std::string gap_in(const std::string& text, const std::string& pattern, std::int64_t& numbers) {
  const std::size_t place = pattern.find("{n}");
  const std::string before = pattern.substr(0, place);
  const std::string after = pattern.substr(place + 3);
  std::optional<std::int64_t> last;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const auto number = number_in(line, before, after);
    if (!number) continue;
    ++numbers;
    if (last && *number != *last + 1) {
      return std::to_string(*number) + " follows " + std::to_string(*last);
    }
    last = number;
  }
  return "";
}

std::vector<Verdict> judge(const DrillExpectations& expect, const DrillFacts& facts) {
  std::vector<Verdict> verdicts;
  if (expect.status) {
    verdicts.push_back({"status", *expect.status, facts.status, facts.status == *expect.status});
  }
  if (expect.exit_code) {
    verdicts.push_back(number_verdict("exit_code", *expect.exit_code, facts.exit_code));
  }
  if (expect.attempts) {
    verdicts.push_back(number_verdict("attempts", *expect.attempts, facts.attempts));
  }
  for (const std::string& wanted : expect.explain) {
    verdicts.push_back(explain_verdict(wanted, facts.explain));
  }
  if (expect.no_process_left) verdicts.push_back(leftovers_verdict(facts.leftovers));
  if (expect.outputs_equal) verdicts.push_back(outputs_verdict(expect, facts));
  if (!expect.log_counts.empty()) verdicts.push_back(counts_verdict(expect.log_counts, facts.job));
  return verdicts;
}

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
