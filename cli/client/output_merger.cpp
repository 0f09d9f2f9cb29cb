#include "cli/client/output_merger.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "cli/terminal/terminal.h"
#include "scheduler/text/text.h"

namespace muster {

namespace {

bool begins(std::string_view line) {
  return line.ends_with("Traceback (most recent call last):");
}

bool is_frame(std::string_view line) {
  return line.empty() || line.front() == ' ' || line.front() == '\t';
}

}  // namespace

void OutputMerger::feed(RankId rank, std::string_view bytes) {
  Rank& state = ranks_[rank];
  std::string shown;
  if (style_.terminal) {
    state.filter.feed(bytes, shown);
    bytes = shown;
  }
  if (style_.prefix) {
    merge(rank, state, bytes);
  } else {
    pass(bytes);
  }
}

void OutputMerger::finish() {
  for (auto& [rank, state] : ranks_) {
    std::string rest;
    if (style_.terminal) state.filter.finish(rest);
    if (style_.prefix) {
      state.line += rest;
      if (!state.line.empty()) end_line(rank, state.line);
    } else {
      pass(rest);
    }
  }
  tracebacks_.finish([this](RankId rank, std::string_view line) { emit_line(rank, line); });
  if (leaves_color()) out_ += "\x1b[0m";
  if (!out_.empty()) write_(out_);
  out_.clear();
  ranks_.clear();
}

// Merged lines end with the colour off where colours are shown.
bool OutputMerger::leaves_color() const {
  if (!style_.terminal) return false;
  if (style_.prefix && style_.color) return false;
  return std::any_of(ranks_.begin(), ranks_.end(),
                     [](const auto& one) { return one.second.filter.leaves_color(); });
}

void OutputMerger::pass(std::string_view bytes) {
  if (bytes.empty()) return;
  at_line_start_ = bytes.back() == '\n';
  write_(bytes);
}

void OutputMerger::merge(RankId rank, Rank& state, std::string_view bytes) {
  while (!bytes.empty()) {
    const std::size_t newline = bytes.find('\n');
    const std::size_t room = line_limit_bytes - state.line.size();
    if (newline == bytes.npos && bytes.size() < room) {
      state.line += bytes;
      break;
    }
    const bool whole = newline != bytes.npos && newline <= room;
    const std::size_t length = whole ? newline : std::min(room, bytes.size());
    state.line += bytes.substr(0, length);
    bytes.remove_prefix(whole ? length + 1 : length);
    end_line(rank, state.line);
    state.line.clear();
  }
  if (!out_.empty()) write_(out_);
  out_.clear();
}

void OutputMerger::end_line(RankId rank, std::string_view line) {
  tracebacks_.feed(rank, line, [this](RankId of, std::string_view text) { emit_line(of, text); });
}

void OutputMerger::emit_line(RankId rank, std::string_view line) {
  constexpr std::array inks{Ink::blue, Ink::green, Ink::yellow, Ink::dim};
  const Ink ink = inks.at(static_cast<std::size_t>(rank.value) % inks.size());
  out_ += inked(std::to_string(rank.value) + ":", ink, style_.color);
  out_ += ' ';
  out_ += line;
  out_ += style_.color ? "\x1b[0m\n" : "\n";
}

void RepeatedTraceback::feed(RankId rank, std::string_view line, const Emit& emit) {
  const auto held = held_.find(rank);
  if (begins(line)) {
    if (held != held_.end()) show(rank, emit);
    held_[rank].emplace_back(line);
  } else if (held == held_.end()) {
    emit(rank, line);
  } else {
    held->second.emplace_back(line);
    if (!is_frame(line))
      end(rank, emit);
    else if (held->second.size() >= lines_held)
      show(rank, emit);
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
  const std::string text = joined(lines, "\n");
  const auto known = seen_.find(text);
  if (known == seen_.end()) {
    if (seen_.size() < tracebacks_known) seen_[text] = Seen{rank, lines.back(), 0, {rank}};
    return show(rank, emit);
  }
  ++known->second.again;
  known->second.ranks.insert(rank);
  held_.erase(rank);
}

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
    out.push_back(Document{
        {"attempt", key.first.value}, {"rank", key.second.value}, {"text", std::move(line)}});
  }
  return out;
}

}  // namespace muster
