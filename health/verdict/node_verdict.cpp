#include "health/verdict/node_verdict.h"

#include <algorithm>
#include <tuple>

#include "scheduler/model/node_fault.h"
#include "scheduler/text/text.h"

namespace muster {

namespace {

bool goes_first(const ActiveFault& a, const ActiveFault& b) {
  const auto rank = [](const ActiveFault& fault) {
    return std::tuple(-static_cast<int>(fault.severity.remedy), !fault.severity.stops_job,
                      fault.since, std::string_view(fault.finding.check),
                      std::string_view(fault.finding.device), std::string_view(fault.id));
  };
  return rank(a) < rank(b);
}

// No node is drained for what a user's program did there.
bool is_serious(const ActiveFault& fault) {
  if (fault.finding.fault_class == FaultClass::user) return false;
  return fault.severity.remedy >= Remedy::drain || fault.severity.stops_job;
}

void sort_in(NodeVerdict& verdict, const ActiveFault& fault, CheckMode mode) {
  if (!is_serious(fault)) return verdict.warnings.push_back(fault);
  (mode == CheckMode::enforce ? verdict.drains : verdict.would_drain).push_back(fault);
}

void add_open_questions(NodeVerdict& verdict, const Streak& streak, const CheckRules& rules,
                        CheckMode mode) {
  const SampleWanted question{streak.check, streak.device};
  if (mode != CheckMode::enforce) return;
  if (is_required(rules.profile, streak.check) && streak.last != CheckStatus::pass) {
    verdict.unclear.push_back(question);
  } else if (streak.bad > 0) {
    verdict.unconfirmed.push_back(question);
  }
}

// A required check that never answered at all. Patterns name none.
void add_silent(NodeVerdict& verdict, const Streaks& streaks, const CheckRules& rules) {
  for (const std::string& check : rules.profile.required) {
    if (check.find_first_of("*[") != std::string::npos) continue;
    if (mode_of(rules, check, {}) == CheckMode::enforce && !has_answered(streaks, check)) {
      verdict.unclear.push_back({check, {}});
    }
  }
}

std::string name_of(const std::string& check, const std::string& device) {
  return device.empty() ? check : check + " on " + device;
}

bool is_meant(const DrainReason& reason, const Streak& streak) {
  const DrainReason own = drain_reason({}, streak.check, streak.device, {});
  return own.check == reason.check && own.device == reason.device;
}

// A state that passes is sound, whatever it was. After an event only the end of the very fault
// counts: a record of it that is lost proves nothing.
bool is_proven_over(const DrainReason& reason, const Streak& streak, const CheckRules& rules) {
  if (rules.persistence_of(streak.check) == Persistence::samples) return true;
  return streak.cleared_id == reason.id;
}

std::string list_of(const std::vector<SampleWanted>& questions) {
  std::vector<std::string> names;
  for (const SampleWanted& one : questions)
    names.push_back(one.device.empty() ? one.check : one.check + " on " + one.device);
  return joined(names);
}

// A clock that went back makes no verdict young.
bool is_fresh(const PrologQuestion& question) {
  return question.verdict && question.verdict_age >= Milliseconds{0} &&
         question.verdict_age <= verdict_fresh;
}

bool is_clear(const NodeVerdict& verdict) {
  return verdict.unclear.empty() && verdict.unconfirmed.empty();
}

// A drain lasts until it is undone, however old the verdict is.
PrologAnswer final_answer(const PrologQuestion& question) {
  if (question.verdict && question.verdict->is_drained()) {
    return RefuseNode{question.verdict->reason()};
  }
  if (!is_fresh(question)) return TakeSpare{"no check of the node ended in time"};
  if (!question.verdict->unclear.empty()) {
    return TakeSpare{"no pass of " + list_of(question.verdict->unclear)};
  }
  return StartJob{};
}

// Until the next sample of the same thing counts as another one.
Milliseconds pause_before(const PrologQuestion& question) {
  if (!is_fresh(question)) return Milliseconds{0};
  return std::max(Milliseconds{0}, Milliseconds{fast_sampling} - question.verdict_age);
}

}  // namespace

bool NodeVerdict::stops_job() const {
  return std::ranges::any_of(drains, [](const auto& fault) { return fault.severity.stops_job; });
}

Remedy NodeVerdict::worst() const {
  return drains.empty() ? Remedy::warn : drains.front().severity.remedy;
}

std::string NodeVerdict::reason() const {
  if (drains.empty()) return {};
  const HealthFinding& worst = drains.front().finding;
  return text_of(drain_reason(worst.fault_class, worst.check, worst.device, drains.front().id));
}

NodeVerdict judge_node(const Streaks& streaks, const CheckRules& rules, Time now) {
  NodeVerdict verdict;
  verdict.at = now;
  for (const auto& [key, streak] : streaks.by_key) {
    const CheckMode mode = mode_of(rules, streak.check, streak.device);
    if (mode == CheckMode::off) continue;
    if (streak.fault) {
      sort_in(verdict, *streak.fault, mode);
    } else {
      add_open_questions(verdict, streak, rules, mode);
    }
  }
  add_silent(verdict, streaks, rules);
  for (auto* list : {&verdict.drains, &verdict.would_drain, &verdict.warnings}) {
    std::ranges::sort(*list, goes_first);
  }
  return verdict;
}

std::optional<std::string> why_drain_stays(const std::string& text, const Streaks& streaks,
                                           const CheckRules& rules, const NodeVerdict& verdict) {
  const auto reason = parse_drain_reason(text);
  if (!reason) return "somebody drained it: " + text;
  if (verdict.is_drained()) return "it would be drained again: " + verdict.reason();
  const std::string name = name_of(reason->check, reason->device);
  std::string why = name + " was not looked at since";
  for (const auto& [key, streak] : streaks.by_key) {
    if (!is_meant(*reason, streak)) continue;
    const int needed = passes_needed(rules, streak.check);
    if (streak.passed < needed) {
      why = name + " passed " + std::to_string(streak.passed) + " of " + std::to_string(needed) +
            " times";
    } else if (streak.fault || !is_proven_over(*reason, streak, rules)) {
      why = name + " passes, but nothing shows that " + reason->id + " was repaired";
    } else {
      return std::nullopt;
    }
  }
  return why;
}

std::optional<std::string> reason_to_set(const std::string& text, const NodeVerdict& verdict) {
  const bool is_foreign = !text.empty() && !parse_drain_reason(text);
  if (!verdict.is_drained() || is_foreign) return std::nullopt;
  const std::string own = verdict.reason();
  if (text == own || text.starts_with(own + " [")) return std::nullopt;
  return own;
}

PrologStep next_prolog_step(const PrologQuestion& question) {
  const Milliseconds left =
      prolog_deadline - prolog_margin - std::max(Milliseconds{0}, question.waited);
  const bool is_decided =
      is_fresh(question) && (question.verdict->is_drained() || is_clear(*question.verdict));
  const Milliseconds pause = pause_before(question);
  if (is_decided || left <= pause) return final_answer(question);
  if (question.is_running) return WaitForRun{left};
  return RunQuick{pause, left - pause};
}

}  // namespace muster
