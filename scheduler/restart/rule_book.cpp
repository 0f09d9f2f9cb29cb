#include "scheduler/restart/rule_book.h"

#include <algorithm>
#include <charconv>
#include <functional>

namespace muster {

namespace {

constexpr int signal_exit_base = 128;  // shells report death by signal n as exit code 128 + n

std::optional<Pattern> pattern_of(const RestartRule& rule) {
  if (rule.stderr_regex.empty()) return std::nullopt;
  auto pattern = Pattern::compile(rule.stderr_regex);
  if (!pattern) return std::nullopt;  // the reader of the file has said so
  return *pattern;
}

std::vector<RuleEntry> compiled(const std::vector<RestartRule>& rules, RuleOrigin origin) {
  std::vector<RuleEntry> entries;
  for (const RestartRule& rule : rules) {
    entries.push_back({rule, origin, pattern_of(rule)});
    RestartRule& named = entries.back().rule;
    if (named.id.empty()) named.id = std::to_string(entries.size());
  }
  return entries;
}

struct BuiltIn {
  std::vector<RuleEntry> entries = compiled(built_in_rules(), RuleOrigin::built_in);
  PatternSet patterns{texts()};

  static std::vector<std::string> texts() {
    std::vector<std::string> all;
    for (const RestartRule& rule : built_in_rules()) all.push_back(rule.stderr_regex);
    return all;
  }
};

const BuiltIn& built_in() {
  static const BuiltIn table;
  return table;
}

bool any_holds(const std::vector<NumberRange>& ranges, int number) {
  return std::ranges::any_of(ranges, [&](const NumberRange& range) { return range.holds(number); });
}

bool code_fits(const RestartRule& rule, const ExitStatus& status) {
  return rule.exit_codes.empty() || (status.signal == 0 && any_holds(rule.exit_codes, status.code));
}

bool signal_fits(const RestartRule& rule, const ExitStatus& status) {
  const int signal = status.signal != 0 ? status.signal : status.code - signal_exit_base;
  return rule.signals.empty() || std::ranges::find(rule.signals, signal) != rule.signals.end();
}

bool status_fits(const RestartRule& rule, const KnownExit& evidence) {
  if (evidence.was_stopped) return rule.exit_codes.empty() && rule.signals.empty();
  return code_fits(rule, evidence.status) && signal_fits(rule, evidence.status);
}

bool xid_fits(const RestartRule& rule, const std::vector<int>& xids) {
  return rule.xids.empty() ||
         std::ranges::any_of(xids, [&](int xid) { return any_holds(rule.xids, xid); });
}

bool has_condition(const RestartRule& rule) {
  return !rule.exit_codes.empty() || !rule.signals.empty() || !rule.xids.empty() ||
         !rule.stderr_regex.empty();
}

std::optional<std::size_t> line_of(const Pattern& pattern, const KnownExit& evidence) {
  for (std::size_t i = 0; i < evidence.last_lines.size(); ++i) {
    if (pattern.found_in(evidence.last_lines[i])) return i;
  }
  return std::nullopt;
}

std::optional<RuleHit> hit(const RuleEntry& entry, const KnownExit& evidence,
                           const std::vector<int>& xids) {
  const RestartRule& rule = entry.rule;
  const bool fits = has_condition(rule) && status_fits(rule, evidence) && xid_fits(rule, xids);
  if (!fits) return std::nullopt;
  RuleHit found{&entry, std::nullopt};
  if (rule.stderr_regex.empty()) return found;
  if (entry.pattern) found.line = line_of(*entry.pattern, evidence);
  if (!found.line) return std::nullopt;
  return found;
}

// Until `see` has seen enough.
void each_hit(const std::vector<RuleEntry>& own, const KnownExit& evidence,
              const std::function<bool(const RuleHit&)>& see) {
  if (evidence.status.ok()) return;
  const std::vector<int> xids = xids_in(evidence.last_lines);
  for (const RuleEntry& entry : own) {
    const auto found = hit(entry, evidence, xids);
    if (found && !see(*found)) return;
  }
  const std::vector<bool> marked = built_in().patterns.may_be_in(evidence.last_lines);
  for (std::size_t i = 0; i < marked.size(); ++i) {
    const RuleEntry& entry = built_in().entries[i];
    if (entry.pattern && !marked[i]) continue;
    const auto found = hit(entry, evidence, xids);
    if (found && !see(*found)) return;
  }
}

MatchedRule matched(const RuleEntry& entry) {
  const RestartRule& rule = entry.rule;
  return {rule.id,    entry.origin, rule.failure_class, rule.action,
          rule.delay, rule.advice,  rule.cascade,       rule.doubts_state};
}

std::string ranges_text(const std::vector<NumberRange>& ranges) {
  std::string text;
  for (const NumberRange& range : ranges) {
    text += (text.empty() ? "" : " or ") + std::to_string(range.low);
    if (range.high != range.low) text += "-" + std::to_string(range.high);
  }
  return text;
}

}  // namespace

KnownExit known_exit(const RankExited& exit) {
  return {exit.status, exit.last_lines, exit.asked_to_stop};
}

RuleBook::RuleBook(const MusterSettings& settings)
    : own_(compiled(settings.rules, RuleOrigin::job)) {
  for (RuleEntry& entry : compiled(settings.site_rules, RuleOrigin::site)) {
    own_.push_back(std::move(entry));
  }
}

std::vector<const RuleEntry*> RuleBook::entries() const {
  std::vector<const RuleEntry*> all;
  for (const RuleEntry& entry : own_) all.push_back(&entry);
  for (const RuleEntry& entry : built_in().entries) all.push_back(&entry);
  return all;
}

RuleVerdict RuleBook::judge(const KnownExit& evidence) const {
  RuleVerdict verdict;
  each_hit(own_, evidence, [&](const RuleHit& found) {
    const RuleEntry& entry = *found.entry;
    if (!entry.rule.enforce) {
      verdict.only_logged.push_back(entry.rule.id);
      return true;
    }
    verdict.rule = matched(entry);
    return false;
  });
  return verdict;
}

std::vector<RuleHit> RuleBook::hits(const KnownExit& evidence) const {
  std::vector<RuleHit> all;
  each_hit(own_, evidence, [&](const RuleHit& found) {
    all.push_back(found);
    return true;
  });
  return all;
}

RuleVerdict judge_exit(const MusterSettings& settings, const KnownExit& evidence) {
  return RuleBook(settings).judge(evidence);
}

std::vector<int> xids_in(const std::vector<std::string>& lines) {
  std::vector<int> xids;
  for (const std::string& line : lines) {
    const std::size_t mark = line.find("Xid (PCI:");
    const std::size_t close = mark == line.npos ? line.npos : line.find("): ", mark);
    if (close == line.npos) continue;
    int xid = 0;
    const char* begin = line.data() + close + 3;
    if (std::from_chars(begin, line.data() + line.size(), xid).ec == std::errc()) {
      xids.push_back(xid);
    }
  }
  return xids;
}

std::string condition_text(const RestartRule& rule) {
  std::string text;
  const auto add = [&](const std::string& part) { text += (text.empty() ? "" : ", ") + part; };
  if (!rule.exit_codes.empty()) add("exit_code " + ranges_text(rule.exit_codes));
  std::vector<NumberRange> signals;
  for (const int signal : rule.signals) signals.push_back({signal, signal});
  if (!signals.empty()) add("signal " + ranges_text(signals));
  if (!rule.xids.empty()) add("xid " + ranges_text(rule.xids));
  if (!rule.stderr_regex.empty()) add("stderr_regex '" + rule.stderr_regex + "'");
  return text;
}

}  // namespace muster
