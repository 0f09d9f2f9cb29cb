#include "health/model/finding.h"

namespace muster {

std::string text_of(const CheckSeverity& severity) {
  std::string text = severity.stops_job ? "!" : "";
  text += word_of(severity.remedy);
  if (severity.on_recurrence) text += ">" + std::string(word_of(*severity.on_recurrence));
  return text;
}

}  // namespace muster
