#include "cli/client/log_follower.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <system_error>

#include "cli/terminal/terminal.h"
#include "launcher/os/fd.h"
#include "scheduler/text/number.h"
#include "scheduler/text/text.h"

namespace muster {

namespace {

constexpr std::size_t follow_block_bytes = 256 * 1024;

// The number in `<prefix><number><suffix>`; nothing for any other name.
std::optional<std::int64_t> number_in(std::string_view name, std::string_view prefix,
                                      std::string_view suffix) {
  if (!name.starts_with(prefix) || !name.ends_with(suffix)) return std::nullopt;
  if (name.size() <= prefix.size() + suffix.size()) return std::nullopt;
  name.remove_prefix(prefix.size());
  name.remove_suffix(suffix.size());
  return read_integer(name);
}

template <class Visit>
void each_number(const std::filesystem::path& directory, std::string_view prefix,
                 std::string_view suffix, Visit visit) {
  std::error_code failure;
  std::filesystem::directory_iterator entries(directory, failure);
  for (; !failure && entries != std::filesystem::directory_iterator(); entries.increment(failure)) {
    const std::string name = entries->path().filename().string();
    if (const auto number = number_in(name, prefix, suffix)) visit(*number);
  }
}

constexpr std::int64_t tail_block_bytes = 64 * 1024;
constexpr std::int64_t text_limit_bytes = 64 * 1024;

Fd open_log(const std::filesystem::path& path) {
  return Fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
}

std::int64_t bytes_in(const Fd& file) {
  struct stat facts {};
  return file && ::fstat(file.get(), &facts) == 0 ? facts.st_size : 0;
}

// Where the last `lines` lines begin; 0 when it has fewer, or cannot be read.
std::int64_t offset_in(const Fd& file, std::int64_t size, std::int64_t lines) {
  if (lines <= 0) return size;
  std::string block;
  std::int64_t end = size;
  std::int64_t newlines = 0;
  while (end > 0) {
    const std::int64_t begin = std::max<std::int64_t>(0, end - tail_block_bytes);
    const auto wanted = static_cast<std::size_t>(end - begin);
    if (!read_at(file.get(), begin, wanted, block) || block.size() != wanted) return 0;
    for (std::int64_t i = end - begin - 1; i >= 0; --i) {
      const bool is_last_byte = begin + i == size - 1;
      if (block[static_cast<std::size_t>(i)] != '\n' || is_last_byte) continue;
      if (++newlines == lines) return begin + i + 1;
    }
    end = begin;
  }
  return 0;
}

bool begins(std::string_view line) {
  return line.ends_with("Traceback (most recent call last):");
}

bool is_frame(std::string_view line) {
  return line.empty() || line.front() == ' ' || line.front() == '\t';
}

}  // namespace

std::set<AttemptId> attempts_on_disk(const std::filesystem::path& job_directory) {
  std::set<AttemptId> attempts;
  each_number(job_directory, "attempt-", "",
              [&](std::int64_t n) { attempts.insert(AttemptId{n}); });
  return attempts;
}

LogFollower::LogFollower(std::filesystem::path job_directory, LogSelection selection)
    : job_directory_(std::move(job_directory)), selection_(std::move(selection)) {}

std::filesystem::path LogFollower::directory_of(AttemptId attempt) const {
  return job_directory_ / ("attempt-" + std::to_string(attempt.value));
}

std::filesystem::path LogFollower::file_of(RankId rank) const {
  return directory_of(*attempt_) / ("rank-" + std::to_string(rank.value) + ".log");
}

std::optional<AttemptId> LogFollower::next_attempt() const {
  for (const AttemptId attempt : attempts_on_disk(job_directory_)) {
    if (selection_.attempt && attempt != *selection_.attempt) continue;
    if (selection_.first_attempt && attempt < *selection_.first_attempt) continue;
    if (!attempt_ || attempt > *attempt_) return attempt;
  }
  return std::nullopt;
}

void LogFollower::find_files() {
  each_number(directory_of(*attempt_), "rank-", ".log", [&](std::int64_t number) {
    const RankId rank{number};
    if (selection_.ranks && !selection_.ranks->contains(rank)) return;
    const auto [place, added] = files_.try_emplace(rank, 0);
    if (added && first_look_ && selection_.tail_lines) {
      const Fd file = open_log(file_of(rank));
      place->second = offset_in(file, bytes_in(file), *selection_.tail_lines);
    }
  });
}

bool LogFollower::poll(const Sink& sink) {
  bool any = false;
  if (!attempt_) attempt_ = next_attempt();
  while (attempt_) {
    // Looked for before reading: once the next attempt exists, nothing is added to this one.
    const auto next = next_attempt();
    any |= read_attempt(sink);
    first_look_ = false;
    if (!next) break;
    attempt_ = next;
    files_.clear();
  }
  return any;
}

bool LogFollower::read_attempt(const Sink& sink) {
  find_files();
  bool any = false;
  for (bool more = true; more;) {
    more = false;
    for (const auto& [rank, offset] : files_) more |= read_block(rank, sink);
    any |= more;
  }
  return any;
}

bool LogFollower::read_block(RankId rank, const Sink& sink) {
  const std::filesystem::path path = file_of(rank);
  std::int64_t& offset = files_.at(rank);
  struct stat facts {};
  if (::stat(path.c_str(), &facts) != 0 || facts.st_size <= offset) return false;
  const Fd file = open_log(path);
  if (!file || !read_at(file.get(), offset, follow_block_bytes, block_)) return false;
  offset += static_cast<std::int64_t>(block_.size());
  if (!block_.empty()) sink(*attempt_, rank, block_);
  return !block_.empty();
}

std::string last_lines_of_file(const std::filesystem::path& path, std::int64_t lines) {
  const Fd file = open_log(path);
  const std::int64_t size = bytes_in(file);
  if (lines <= 0) return "";
  const std::int64_t begin = std::max(offset_in(file, size, lines), size - text_limit_bytes);
  std::string text;
  return read_at(file.get(), begin, static_cast<std::size_t>(size - begin), text) ? text : "";
}

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
