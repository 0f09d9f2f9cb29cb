#include "health/model/finding.h"

namespace muster {

std::string text_of(const CheckSeverity& severity) {
  std::string text = severity.stops_job ? "!" : "";
  text += word_of(severity.remedy);
  if (severity.on_recurrence) text += ">" + std::string(word_of(*severity.on_recurrence));
  return text;
}

namespace {

std::optional<Remedy> remedy_in(std::string_view text) {
  const auto found = std::ranges::find(remedy_words, text);
  if (found == remedy_words.end()) return std::nullopt;
  return static_cast<Remedy>(found - remedy_words.begin());
}

}  // namespace

std::optional<CheckSeverity> severity_in(std::string_view text) {
  CheckSeverity severity;
  severity.stops_job = text.starts_with('!');
  if (severity.stops_job) text.remove_prefix(1);
  const std::size_t step = text.find('>');
  const auto remedy = remedy_in(text.substr(0, step));
  if (!remedy) return std::nullopt;
  severity.remedy = *remedy;
  if (step == std::string_view::npos) return severity;
  severity.on_recurrence = remedy_in(text.substr(step + 1));
  return severity.on_recurrence ? std::optional(severity) : std::nullopt;
}

}  // namespace muster
