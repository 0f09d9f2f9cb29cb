#include "cli/client/output_merger.h"

#include <algorithm>
#include <array>

#include "cli/terminal/terminal.h"

namespace muster {

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

}  // namespace muster
