#include "templates/settings/setting_table.h"

#include <set>

#include "scheduler/model/names.h"
#include "scheduler/restart/pattern.h"
#include "scheduler/text/spelling.h"
#include "scheduler/text/text.h"
#include "templates/yaml/node.h"

namespace muster {
namespace {

// Every failure asks every rule; more than this is a program, not a list of exceptions.
constexpr std::size_t most_rules = 100;
constexpr std::size_t longest_id = 40;
constexpr std::size_t longest_advice = 300;
constexpr int last_exit_code = 255;
constexpr int last_signal = 64;
constexpr int last_xid = 100000;

const std::vector<std::pair<std::string, int>>& signal_numbers() {
  static const std::vector<std::pair<std::string, int>> numbers = {
      {"SIGHUP", 1},   {"SIGINT", 2},   {"SIGQUIT", 3},  {"SIGILL", 4},   {"SIGTRAP", 5},
      {"SIGABRT", 6},  {"SIGBUS", 7},   {"SIGFPE", 8},   {"SIGKILL", 9},  {"SIGUSR1", 10},
      {"SIGSEGV", 11}, {"SIGUSR2", 12}, {"SIGPIPE", 13}, {"SIGALRM", 14}, {"SIGTERM", 15},
      {"SIGXCPU", 24}, {"SIGXFSZ", 25}, {"SIGSYS", 31}};
  return numbers;
}

std::optional<NumberRange> range_of(const std::string& text) {
  const std::size_t dash = text.find('-', 1);
  const auto low = whole_number(std::string_view(text).substr(0, dash));
  const auto high = dash == text.npos ? low : whole_number(std::string_view(text).substr(dash + 1));
  if (!low || !high || *low > *high || *low < 1 || *high > last_xid) return std::nullopt;
  return NumberRange{static_cast<int>(*low), static_cast<int>(*high)};
}

// A failure has no code 0.
std::vector<NumberRange> read_ranges(const Value& value, int last) {
  std::vector<NumberRange> ranges;
  for (const Value& each : value.list_or_one()) {
    const auto text = each.text();
    if (!text) continue;
    const auto range = range_of(*text);
    if (range && range->high <= last) {
      ranges.push_back(*range);
    } else {
      each.error("expected a number from 1 to " + std::to_string(last) +
                 ", a range such as 40-49 or a list of them, got " + describe(each.node()));
    }
  }
  return ranges;
}

std::optional<int> read_signal(const Value& value) {
  const auto text = value.text();
  if (!text) return std::nullopt;
  if (whole_number(*text)) return value.integer(1, last_signal);
  std::string wanted = folded(*text);
  if (!wanted.starts_with("sig")) wanted = "sig" + wanted;
  std::vector<std::string> names;
  for (const auto& [name, number] : signal_numbers()) {
    if (folded(name) == wanted) return number;
    names.push_back(name);
  }
  value.error("expected a signal such as SIGTERM or its number, got " + quoted_text(*text),
              value.suggest(*text, names));
  return std::nullopt;
}

std::vector<int> read_signals(const Value& value) {
  std::vector<int> signals;
  for (const Value& each : value.list_or_one()) {
    if (const auto signal = read_signal(each)) signals.push_back(*signal);
  }
  return signals;
}

std::string read_regex(const Value& value) {
  const auto text = value.text();
  if (!text) return "";
  const auto pattern = Pattern::compile(*text);
  if (!pattern) {
    value.error("not a regular expression: " + quoted_text(*text) + ": " + pattern.error().message);
  }
  return *text;
}

void read_condition(const Value& value, RestartRule& rule) {
  MapReader when(value);
  rule.exit_codes = read_ranges(when.take("exit_code"), last_exit_code);
  rule.signals = read_signals(when.take("signal"));
  rule.stderr_regex = read_regex(when.take("stderr_regex"));
  rule.xids = read_ranges(when.take("xid"), last_xid);
  when.finish();
  if (value.is_map() && value.node().entries.empty()) {
    value.error("expected at least one of exit_code, signal, stderr_regex and xid");
  }
  if (!rule.exit_codes.empty() && !rule.signals.empty()) {
    value.error("exit_code and signal never hold together; make two rules");
  }
}

std::string read_id(const Value& value, std::set<std::string>& taken) {
  const auto text = value.text();
  if (!text) return "";
  if (!is_word_of(*text, "-") || lower_case(*text) != *text || text->size() > longest_id) {
    value.error("expected at most " + std::to_string(longest_id) +
                " small letters, digits and '-', got " + quoted_text(*text));
  } else if (!taken.insert(*text).second) {
    value.error("another rule has the id " + quoted_text(*text));
  }
  return *text;
}

std::string read_advice(const Value& value) {
  const auto text = value.text();
  if (!text) return "";
  if (text->size() > longest_advice || text->find('\n') != text->npos) {
    value.error("expected one line of at most " + std::to_string(longest_advice) + " characters");
  }
  return *text;
}

// A rule that ends jobs is watched before it is let loose.
void read_mode(const Value& value, const Value& map, RestartRule& rule) {
  const bool stops = rule.action == Reaction::stop;
  rule.enforce = value.choice<bool>({{"log", false}, {"enforce", true}}).value_or(!stops);
  if (stops && !value.present()) {
    map.note(
        "a rule that stops jobs begins as 'mode: log'; write 'mode: enforce' once `muster "
        "policy test --replay` shows what it would have stopped");
  }
}

void read_delay(const Value& value, RestartRule& rule) {
  rule.delay = value.duration();
  if (rule.delay && rule.action != Reaction::backoff && rule.action != Reaction::retry) {
    value.error("'delay' needs 'action: backoff' or 'action: retry'");
  }
}

RestartRule read_rule(const Value& value, std::set<std::string>& taken) {
  RestartRule rule;
  MapReader map(value);
  rule.id = read_id(map.take("id"), taken);
  read_condition(map.require("when"), rule);
  rule.failure_class = map.take("class").choice<FailureClass>(EnumWords<FailureClass>::words);
  rule.action = map.take("action").choice<Reaction>(EnumWords<Reaction>::words);
  read_delay(map.take("delay"), rule);
  read_mode(map.take("mode"), value, rule);
  rule.advice = read_advice(map.take("advice"));
  map.finish();
  if (value.is_map() && !value.node().find("class") && !value.node().find("action")) {
    value.error("expected 'class' or 'action'");
  }
  return rule;
}

}  // namespace

std::vector<RestartRule> read_rule_list(const Value& value) {
  std::vector<RestartRule> rules;
  const std::vector<Value> entries = value.list();
  if (entries.size() > most_rules) {
    value.error("expected at most " + std::to_string(most_rules) + " rules");
    return rules;
  }
  std::set<std::string> taken;
  for (const Value& each : entries) rules.push_back(read_rule(each, taken));
  return rules;
}

}  // namespace muster
