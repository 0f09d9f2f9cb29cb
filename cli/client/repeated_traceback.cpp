#include "cli/client/repeated_traceback.h"

namespace muster {

namespace {

bool begins(std::string_view line) {
  return line.ends_with("Traceback (most recent call last):");
}

bool is_frame(std::string_view line) {
  return line.empty() || line.front() == ' ' || line.front() == '\t';
}

std::string joined(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + '\n';
  return text;
}

}  // namespace

void RepeatedTraceback::feed(RankId rank, std::string_view line, const Emit& emit) {
  const auto held = held_.find(rank);
  if (begins(line)) {
    if (held != held_.end()) show(rank, emit);
    held_[rank].emplace_back(line);
  } else if (held == held_.end()) {
    emit(rank, line);
  } else {
    held->second.emplace_back(line);
    if (!is_frame(line)) end(rank, emit);
    else if (held->second.size() >= lines_held) show(rank, emit);
  }
}

void RepeatedTraceback::finish(const Emit& emit) {
  while (!held_.empty()) show(held_.begin()->first, emit);
  for (const auto& [text, seen] : seen_) {
    if (seen.again == 0) continue;
    const std::size_t ranks = seen.ranks.size();
    emit(seen.first, "(the traceback that ends with '" + seen.exception + "' came " +
                         std::to_string(seen.again) +
                         (seen.again == 1 ? " more time" : " more times") +
                         (ranks > 1 ? ", from " + std::to_string(ranks) + " ranks in all)" : ")"));
  }
  seen_.clear();
}

void RepeatedTraceback::show(RankId rank, const Emit& emit) {
  for (const std::string& line : held_[rank]) emit(rank, line);
  held_.erase(rank);
}

void RepeatedTraceback::end(RankId rank, const Emit& emit) {
  const std::vector<std::string>& lines = held_[rank];
  const std::string text = joined(lines);
  const auto known = seen_.find(text);
  if (known == seen_.end()) {
    if (seen_.size() < tracebacks_known) seen_[text] = Seen{rank, lines.back(), 0, {rank}};
    return show(rank, emit);
  }
  ++known->second.again;
  known->second.ranks.insert(rank);
  held_.erase(rank);
}

}  // namespace muster
