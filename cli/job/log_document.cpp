#include "cli/job/log_document.h"

#include <nlohmann/json.hpp>

#include "cli/client/output_merger.h"

namespace muster {

void LogDocument::feed(AttemptId attempt, RankId rank, std::string_view bytes) {
  const Key key{attempt, rank};
  std::string& line = unfinished_[key];
  for (const char byte : bytes) {
    if (byte != '\n') line += byte;
    if (byte != '\n' && line.size() < OutputMerger::line_limit_bytes) continue;
    lines_.emplace_back(key, std::exchange(line, ""));
  }
}

Document LogDocument::take() {
  for (auto& [key, line] : unfinished_) {
    if (!line.empty()) lines_.emplace_back(key, std::move(line));
  }
  unfinished_.clear();
  Document out = Document::array();
  for (auto& [key, line] : std::exchange(lines_, {})) {
    out.push_back(Document{{"attempt", key.first.value},
                           {"rank", key.second.value},
                           {"text", std::move(line)}});
  }
  return out;
}

}  // namespace muster
