#include "templates/yaml/finding.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "scheduler/text/text.h"

namespace muster {
namespace {

// A person fixes a few errors at a time; more only fills the screen.
constexpr std::size_t max_findings = 200;
constexpr std::size_t max_line_bytes = 160;

bool starts_character(char byte) {
  return (static_cast<unsigned char>(byte) & 0xC0) != 0x80;
}

int characters_in(std::string_view bytes) {
  return static_cast<int>(std::count_if(bytes.begin(), bytes.end(), starts_character));
}

std::string printable(std::string_view text, bool keep_tabs) {
  std::string out;
  for (const char byte : text) {
    const bool control = static_cast<unsigned char>(byte) < 0x20 || byte == 0x7F;
    out += control && !(keep_tabs && byte == '\t') ? '?' : byte;
  }
  return out;
}

std::string caret_under(const std::string& line, int column) {
  std::string out;
  int at = 1;
  for (const char byte : line) {
    if (at >= column) break;
    if (!starts_character(byte)) continue;
    out += byte == '\t' ? '\t' : ' ';
    ++at;
  }
  return out + '^';
}

}  // namespace

std::string_view line_of(std::string_view text, int line) {
  for (int at = 1; at < line; ++at) {
    const std::size_t end = text.find('\n');
    if (end == text.npos) return {};
    text.remove_prefix(end + 1);
  }
  text = text.substr(0, text.find('\n'));
  if (text.ends_with('\r')) text.remove_suffix(1);
  return text;
}

const char* severity_name(Severity severity) {
  constexpr const char* names[] = {"error", "unresolved", "warning", "note"};
  return names[static_cast<std::size_t>(severity)];
}

bool has_errors(const std::vector<Finding>& findings) {
  return std::ranges::count(findings, Severity::error, &Finding::severity) > 0;
}

bool has_unresolved(const std::vector<Finding>& findings) {
  return std::ranges::count(findings, Severity::unresolved, &Finding::severity) > 0;
}

std::string print(const Finding& finding) {
  std::string out = printable(finding.file, false);
  if (finding.line > 0) {
    out += ':' + std::to_string(finding.line) + ':' + std::to_string(finding.column);
  }
  out += std::string(": ") + severity_name(finding.severity) + ": ";
  out += printable(finding.message, false);
  if (!finding.suggestion.empty()) out += "; " + printable(finding.suggestion, false);
  out += '\n';
  const int shown = characters_in(finding.source_line);
  if (finding.line > 0 && shown > 0 && finding.column <= shown + 1) {
    const std::string line = printable(finding.source_line, true);
    out += "  " + line + "\n  " + caret_under(line, finding.column) + '\n';
  }
  return out;
}

Finding finding_at(Severity severity, const Place& place, std::string key, std::string message,
                   std::string suggestion) {
  Finding finding;
  finding.severity = severity;
  finding.key = std::move(key);
  finding.message = std::move(message);
  finding.suggestion = std::move(suggestion);
  if (!place.source) return finding;
  finding.file = place.source->path;
  finding.order = place.source->order;
  finding.line = place.line;
  if (place.line > 0) {
    const std::string_view line = line_of(place.source->text, place.line);
    const auto before = static_cast<std::size_t>(std::max(0, place.column - 1));
    finding.column = characters_in(line.substr(0, before)) + 1;
    finding.source_line = shortened(line, max_line_bytes);
  }
  return finding;
}

bool FindingList::full() const {
  return findings_.size() >= max_findings;
}

void FindingList::add(Severity severity, const Place& place, std::string key, std::string message,
                      std::string suggestion) {
  if (full()) {
    ++dropped_;
    return;
  }
  findings_.push_back(
      finding_at(severity, place, std::move(key), std::move(message), std::move(suggestion)));
  if (hide_lines_) findings_.back().source_line.clear();
}

void sort_findings(std::vector<Finding>& findings) {
  std::ranges::stable_sort(
      findings, {}, [](const Finding& one) { return std::tuple(one.order, one.line, one.column); });
}

std::vector<Finding> FindingList::take_sorted() {
  std::vector<Finding> out = std::exchange(findings_, {});
  sort_findings(out);
  if (dropped_ > 0 && !out.empty()) {
    Finding& more = out.emplace_back();
    more.file = out.front().file;
    more.message = "and " + std::to_string(dropped_) + " more; only the first " +
                   std::to_string(max_findings) + " are shown";
  }
  dropped_ = 0;
  return out;
}

}  // namespace muster
