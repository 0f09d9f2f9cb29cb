#include "tests/health/corpus_case.h"

#include <algorithm>
#include <array>
#include <charconv>

namespace muster {

namespace {

constexpr std::chrono::seconds usual_watch{75};
constexpr std::array<std::string_view, 21> verbs{
    "set",   "append",    "remove",    "error",   "hang",      "add",   "grow",
    "nvml",  "nvml-add",  "nvml-grow", "kmsg",    "kmsg-old",  "event", "kill",
    "reset", "job-death", "boot",      "restart", "nvml-stop", "know"};

std::string_view take_word(std::string_view& text) {
  const std::string_view word = text.substr(0, text.find(' '));
  text.remove_prefix(std::min(text.size(), word.size() + 1));
  return word;
}

std::optional<std::int64_t> whole(std::string_view text) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool is_whole = error == std::errc() && end == text.data() + text.size();
  return is_whole ? std::optional(number) : std::nullopt;
}

std::optional<Phase> phase_of(std::string_view word) {
  constexpr std::pair<std::string_view, Phase> phases[] = {
      {"prolog", Phase::prolog},       {"periodic", Phase::periodic},
      {"epilog", Phase::epilog},       {"on_failure", Phase::on_failure},
      {"on_demand", Phase::on_demand}, {"qualification", Phase::qualification}};
  for (const auto& [name, phase] : phases) {
    if (name == word) return phase;
  }
  return std::nullopt;
}

std::string device_word(std::string_view word) {
  return word == "-" ? std::string() : std::string(word);
}

class Parser {
 public:
  explicit Parser(std::string name) { made_.name = std::move(name); }

  // False: not understood.
  bool take(std::string_view line) {
    if (line.starts_with("#")) {
      if (made_.title.empty()) made_.title = line.substr(std::min<std::size_t>(line.size(), 2));
      return true;
    }
    const std::string_view word = take_word(line);
    if (word.empty()) return true;
    if (std::ranges::find(verbs, word) != verbs.end()) {
      made_.edits.push_back({at_, std::string(word), std::string(line)});
      return true;
    }
    return word == "expect" ? take_expectation(line) : take_setting(word, line);
  }

  CorpusCase done() {
    for (const CorpusEdit& edit : made_.edits)
      if (!has_end_) made_.until = std::max(made_.until, edit.at + usual_watch);
    return std::move(made_);
  }

 private:
  bool take_setting(std::string_view word, std::string_view rest) {
    if (word == "node") made_.node = rest == "a100" ? FakeKind::a100 : FakeKind::h100;
    if (word == "node") return rest == "a100" || rest == "h100";
    if (word == "profile") made_.profile.emplace_back(rest);
    if (word == "busy") made_.is_busy = true;
    if (word == "profile" || word == "busy") return true;
    if (word == "phase") {
      const auto phase = phase_of(rest);
      if (phase) made_.phase = *phase;
      made_.is_busy = made_.is_busy || phase == Phase::periodic;
      return phase.has_value();
    }
    if (word == "never") {
      const std::string_view check = take_word(rest);
      made_.never.push_back({std::string(check), {}});
      if (!rest.empty()) made_.never.back().device = device_word(rest);
      return true;
    }
    const auto seconds = whole(rest);
    if (!seconds) return false;
    if (word == "at") at_ = std::chrono::seconds(*seconds);
    if (word == "up") made_.up = std::chrono::seconds(*seconds);
    if (word == "until") made_.until = std::chrono::seconds(*seconds);
    has_end_ = has_end_ || word == "until";
    return word == "at" || word == "up" || word == "until";
  }

  bool take_expectation(std::string_view rest) {
    CorpusExpectation one;
    one.check = take_word(rest);
    one.device = device_word(take_word(rest));
    one.severity = take_word(rest);
    if (find_check(one.check) == nullptr) return false;
    if (one.severity == "unknown") {
      one.severity.clear();
    } else {
      one.fault_class = take_word(rest);
      if (one.fault_class.empty()) return false;
    }
    if (!rest.empty()) {
      const auto seconds = whole(rest);
      if (!seconds) return false;
      one.within = std::chrono::seconds(*seconds);
    }
    made_.expected.push_back(std::move(one));
    return true;
  }

  CorpusCase made_;
  std::chrono::seconds at_{20};
  bool has_end_ = false;
};

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

// Of "gpu3": how the node calls it in texts.
std::optional<std::string> name_in_text(std::string_view name, const FakeNode& node) {
  const std::size_t digit = name.find_first_of("01234567");
  if (digit == name.npos || digit + 1 != name.size()) return std::nullopt;
  const int index = name.back() - '0';
  const std::string_view kind = name.substr(0, digit);
  if (kind == "gpu") return node.gpu_address(index).substr(0, 10);
  if (kind == "pci") return node.gpu_address(index);
  if (kind == "hca") return node.hca_address(index);
  const std::string folder = "/sys/class/infiniband/mlx5_ib" + std::to_string(index);
  if (kind == "port") return folder + "/ports/1";
  return kind == "hcadir" ? std::optional(folder) : std::nullopt;
}

}  // namespace

Result<CorpusCase> parse_corpus_case(const std::string& name, std::string_view text) {
  Parser parser(name);
  int number = 0;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    ++number;
    if (!parser.take(line))
      return Error{name + ":" + std::to_string(number) + ": not understood: " + std::string(line)};
  }
  CorpusCase made = parser.done();
  if (made.expected.empty() && made.never.empty()) return Error{name + ": expects nothing"};
  return made;
}

std::string corpus_text(std::string_view text, const FakeNode& node) {
  std::string out;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const std::string_view rest = text.substr(at);
    const std::size_t end = rest.find('}');
    const auto named = rest.starts_with('{') && end != rest.npos
                           ? name_in_text(rest.substr(1, end - 1), node)
                           : std::nullopt;
    if (named) {
      out += *named;
      at += end;
    } else if (rest.starts_with("\\n")) {
      out += '\n';
      ++at;
    } else if (rest.starts_with("\\x") && rest.size() >= 4) {
      out += static_cast<char>(hex_digit(rest[2]) * 16 + hex_digit(rest[3]));
      at += 3;
    } else {
      out += text[at];
    }
  }
  return out;
}

}  // namespace muster
