#include "scheduler/restart/pattern.h"

#include <re2/re2.h>
#include <re2/set.h>

#include <algorithm>

namespace muster {

namespace {

// Longer than anything a person writes; a pattern is compiled for every job that holds it.
constexpr std::size_t pattern_limit_bytes = 512;
// Of a compiled pattern: repeats of repeats would otherwise grow to the library's 8 MiB.
constexpr std::int64_t memory_limit_bytes = 1 << 20;
// A line of output may be a megabyte of numbers; an error line is not.
constexpr std::size_t line_limit_bytes = 4096;
constexpr std::int64_t set_memory_limit_bytes = 16 << 20;

RE2::Options options(std::int64_t memory_bytes) {
  RE2::Options options;
  options.set_log_errors(false);
  options.set_max_mem(memory_bytes);
  return options;
}

re2::StringPiece seen_of(std::string_view line) {
  return {line.data(), std::min(line.size(), line_limit_bytes)};
}

}  // namespace

Result<Pattern> Pattern::compile(const std::string& text) {
  if (text.empty()) return Error{"the pattern is empty"};
  if (text.size() > pattern_limit_bytes) {
    return Error{"expected at most " + std::to_string(pattern_limit_bytes) + " characters"};
  }
  auto regex = std::make_shared<const RE2>(text, options(memory_limit_bytes));
  if (!regex->ok()) return Error{regex->error()};
  return Pattern(std::move(regex));
}

bool Pattern::found_in(std::string_view line) const {
  return RE2::PartialMatch(seen_of(line), *regex_);
}

std::map<std::string, std::string_view> Pattern::named_in(std::string_view line) const {
  std::map<std::string, std::string_view> named;
  const re2::StringPiece seen = seen_of(line);
  const int count = 1 + regex_->NumberOfCapturingGroups();
  std::vector<re2::StringPiece> groups(static_cast<std::size_t>(count));
  if (!regex_->Match(seen, 0, seen.size(), RE2::UNANCHORED, groups.data(), count)) return named;
  for (const auto& [name, index] : regex_->NamedCapturingGroups()) {
    const re2::StringPiece& group = groups[static_cast<std::size_t>(index)];
    if (group.data() != nullptr) named[name] = {group.data(), group.size()};
  }
  return named;
}

struct PatternSet::Automaton {
  RE2::Set set{options(set_memory_limit_bytes), RE2::UNANCHORED};
  std::vector<std::size_t> places;  // of each pattern in the set among the texts
  bool usable = false;
};

PatternSet::PatternSet(const std::vector<std::string>& texts)
    : size_(texts.size()), automaton_(std::make_unique<Automaton>()) {
  for (std::size_t i = 0; i < texts.size(); ++i) {
    if (texts[i].empty() || automaton_->set.Add(texts[i], nullptr) < 0) continue;
    automaton_->places.push_back(i);
  }
  automaton_->usable = !automaton_->places.empty() && automaton_->set.Compile();
}

PatternSet::~PatternSet() = default;

std::vector<bool> PatternSet::may_be_in(const std::vector<std::string>& lines) const {
  std::vector<bool> marked(size_, !automaton_->usable);
  if (!automaton_->usable) return marked;
  for (const std::string& line : lines) {
    std::vector<int> found;
    RE2::Set::ErrorInfo problem{RE2::Set::kNoError};
    automaton_->set.Match(seen_of(line), &found, &problem);
    if (problem.kind == RE2::Set::kOutOfMemory) return std::vector<bool>(size_, true);
    for (const int index : found) {
      marked[automaton_->places[static_cast<std::size_t>(index)]] = true;
    }
  }
  return marked;
}

}  // namespace muster
