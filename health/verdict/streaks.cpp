#include "health/verdict/streaks.h"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <tuple>

namespace muster {

namespace {

constexpr char between = '\n';

std::string key_of(const std::string& check, const std::string& device, const std::string& code) {
  return check + between + device + between + code;
}

void count_one(int& counter) {
  if (counter < std::numeric_limits<int>::max()) counter += 1;
}

// FNV-1a; the fields are kept apart, or ("a", "bc") and ("ab", "c") would be one.
std::uint64_t hash_of_words(const std::array<std::string_view, 4>& words) {
  std::uint64_t hash = 14695981039346656037ull;
  const auto add = [&](char c) {
    hash ^= static_cast<unsigned char>(c);
    hash *= 1099511628211ull;
  };
  for (const std::string_view word : words) {
    for (const char c : word) add(c);
    add('\0');
  }
  return hash ^ (hash >> 32);
}

auto badness(const HealthFinding& finding) {
  return std::tuple(badness_of(finding.status), finding.severity.remedy, finding.severity.stops_job,
                    finding.severity.on_recurrence);
}

// ---- room -------------------------------------------------------------------------------------

void make_room(Streaks& streaks) {
  if (streaks.by_key.size() < streaks_kept) return;
  const auto has_no_fault = [](const auto& item) { return !item.second.fault; };
  auto victim = std::ranges::find_if(streaks.by_key, has_no_fault);
  if (victim == streaks.by_key.end()) victim = streaks.by_key.begin();
  streaks.by_key.erase(victim);
}

Streak& streak_of(Streaks& streaks, const HealthFinding& finding, const std::string& code) {
  const std::string key = key_of(finding.check, finding.device, code);
  const auto found = streaks.by_key.find(key);
  if (found != streaks.by_key.end()) return found->second;
  make_room(streaks);
  Streak& streak = streaks.by_key[key];
  streak.check = finding.check;
  streak.device = finding.device;
  streak.code = code;
  return streak;
}

// ---- one sample -------------------------------------------------------------------------------

// The source of a required check cannot be read: nobody knows, and no board is to blame.
HealthFinding as_setup(HealthFinding finding) {
  finding.severity = CheckSeverity{Remedy::drain, {}, false};
  finding.fault_class = FaultClass::setup;
  return finding;
}

void believe(Streak& streak, HealthFinding finding, const CheckRules& rules,
             const SampleMoment& at) {
  ActiveFault fault;
  fault.severity = finding.severity;
  fault.persistence = rules.persistence_of(finding.check);
  fault.id = finding_id(finding);
  fault.first_seen = streak.first_bad;
  fault.since = at.now;
  fault.last_bad = at.now;
  fault.job = at.job;
  fault.finding = std::move(finding);
  streak.fault = std::move(fault);
}

// What stands is worse than was known: it keeps its name and its age.
void worsen(ActiveFault& fault, const HealthFinding& finding) {
  fault.finding = finding;
  fault.severity = finding.severity;
}

void note_window(Streak& streak, bool is_bad) {
  constexpr std::int64_t all = (std::int64_t{1} << often_of_windows) - 1;
  streak.windows = (streak.windows << 1 | (is_bad ? 1 : 0)) & all;
}

// Every link has an error now and then. One that has them half of the time is bad.
HealthFinding judged_by_windows(const Streak& streak, HealthFinding finding,
                                const CheckRules& rules) {
  const bool is_mild = finding.severity.remedy == Remedy::warn && finding.severity.on_recurrence &&
                       rules.persistence_of(finding.check) == Persistence::delta;
  if (is_mild && std::popcount(static_cast<std::uint64_t>(streak.windows)) >= often_windows) {
    finding.severity.remedy = *finding.severity.on_recurrence;
  }
  return finding;
}

void begin_if_first(Streak& streak, const SampleMoment& at) {
  if (streak.bad + streak.unknown == 0) streak.first_bad = at.now;
}

void add_failure(Streak& streak, const HealthFinding& found, const CheckRules& rules,
                 const SampleMoment& at) {
  begin_if_first(streak, at);
  note_window(streak, true);
  const HealthFinding finding = judged_by_windows(streak, found, rules);
  streak.unknown = 0;
  count_one(streak.bad);
  if (streak.fault) streak.fault->last_bad = at.now;
  if (streak.bad < bad_samples_needed(rules, finding.check)) return;
  // After its remedy it is another one: that is what climbs.
  if (!streak.fault || streak.fault->repaired_at) return believe(streak, finding, rules, at);
  if (badness(finding) > badness(streak.fault->finding)) worsen(*streak.fault, finding);
}

// Unknown is no pass: it neither ends a row of bad ones nor lengthens it.
void add_unknown(Streak& streak, const HealthFinding& finding, const CheckRules& rules,
                 const SampleMoment& at) {
  begin_if_first(streak, at);
  count_one(streak.unknown);
  if (streak.fault && streak.fault->finding.status == CheckStatus::unknown) {
    streak.fault->last_bad = at.now;
  }
  if (streak.fault || !is_required(rules.profile, finding.check)) return;
  if (streak.unknown >= usual_samples) believe(streak, as_setup(finding), rules, at);
}

// A pass right after an event says nothing about what broke; after a state it is the evidence.
// A measurement that passes is the proof itself.
bool needs_repair(const ActiveFault& fault) {
  if (fault.finding.check.starts_with("perf.")) return false;
  if (fault.repaired_at || fault.finding.status == CheckStatus::unknown) return false;
  if (fault.severity.remedy == Remedy::rma) return true;
  return fault.persistence != Persistence::samples && fault.severity.remedy >= Remedy::reset;
}

// What is milder than a reset was not ended by one.
Seconds clean_time_of(const ActiveFault& fault, const CheckRules& rules) {
  const bool had_its_remedy = fault.repaired_at && fault.severity.remedy >= Remedy::reset;
  return had_its_remedy ? clean_time_after_remedy(rules, fault.finding.check)
                        : clean_time_needed(rules, fault.finding.check);
}

bool is_over(const Streak& streak, const CheckRules& rules, const SampleMoment& at) {
  const ActiveFault& fault = *streak.fault;
  return streak.passed >= passes_needed(rules, streak.check) && !needs_repair(fault) &&
         at.now - fault.last_bad >= clean_time_of(fault, rules);
}

void add_pass(Streak& streak, const CheckRules& rules, const SampleMoment& at) {
  streak.bad = 0;
  streak.unknown = 0;
  streak.last = CheckStatus::pass;
  note_window(streak, false);
  count_one(streak.passed);
  if (!streak.fault || !is_over(streak, rules, at)) return;
  streak.cleared_id = streak.fault->id;
  streak.fault.reset();
}

bool is_settling(const HealthFinding& finding, const SampleMoment& at) {
  const CheckSpec* spec = find_check(finding.check);
  return at.uptime && *at.uptime < link_settling && spec != nullptr && spec->is_of_link;
}

void add_one(Streaks& streaks, const HealthFinding& finding, const CheckRules& rules,
             const SampleMoment& at) {
  Streak& streak = streak_of(streaks, finding, cause_code(finding));
  streak.last = finding.status;
  if (is_settling(finding, at)) return;
  if (finding.status == CheckStatus::fail) add_failure(streak, finding, rules, at);
  if (finding.status == CheckStatus::unknown) add_unknown(streak, finding, rules, at);
}

// ---- one run ----------------------------------------------------------------------------------

// By check, device and cause; the worst of each. A key's check and device without its cause stand
// for passes, which no cause has.
using Worst = std::map<std::string, const HealthFinding*>;

void keep_worst(Worst& worst, const std::string& key, const HealthFinding& finding) {
  const auto [at, is_first] = worst.emplace(key, &finding);
  if (!is_first && badness(*at->second) < badness(finding)) at->second = &finding;
}

bool is_of_check(const std::string& key, const std::string& check) {
  return key.size() > check.size() && key[check.size()] == between && key.starts_with(check);
}

template <class Do>
void for_each_of_check(Streaks& streaks, const std::string& check, Do what) {
  auto item = streaks.by_key.lower_bound(check + between);
  for (; item != streaks.by_key.end() && is_of_check(item->first, check); ++item) {
    what(item->second);
  }
}

// `by_device` tells for which devices the run has more to say.
void pass_all_causes(Streaks& streaks, const HealthFinding& pass, const Worst& by_device,
                     const CheckRules& rules, const SampleMoment& at) {
  streak_of(streaks, pass, {});
  for_each_of_check(streaks, pass.check, [&](Streak& streak) {
    const bool is_meant =
        streak.device == pass.device ||
        (pass.device.empty() && !by_device.contains(key_of(pass.check, streak.device, {})));
    if (is_meant) add_pass(streak, rules, at);
  });
}

// The log may tell of a device without its name: no pass will ever name it either, so that of all
// of them counts.
void pass_for_node(Streaks& streaks, const Worst& by_device, const CheckRules& rules,
                   const SampleMoment& at) {
  std::map<std::string, bool> passes;
  for (const auto& [key, finding] : by_device) {
    const bool is_pass = finding->status == CheckStatus::pass && !finding->device.empty();
    const auto [known, is_first] = passes.emplace(finding->check, is_pass);
    known->second = known->second && is_pass;
  }
  for (auto& [key, streak] : streaks.by_key) {
    const auto said = passes.find(streak.check);
    const bool is_of_log = streak.fault && streak.fault->finding.source == "kmsg";
    const bool is_meant =
        is_of_log && streak.device.empty() && said != passes.end() && said->second;
    if (is_meant) add_pass(streak, rules, at);
  }
}

void end_passes(Streaks& streaks, const HealthFinding& finding) {
  for_each_of_check(streaks, finding.check, [&](Streak& streak) {
    if (streak.device == finding.device) streak.passed = 0;
  });
}

void mark_repaired(Streak& streak, Time now) {
  streak.fault->repaired_at = now;
  streak.passed = 0;  // those before prove nothing
  streak.bad = 0;
}

template <class IsOpen>
std::vector<SampleWanted> samples_where(const Streaks& streaks, const CheckRules& rules,
                                        IsOpen is_open) {
  std::vector<SampleWanted> wanted;
  for (const auto& [key, streak] : streaks.by_key) {
    if (is_open(streak) && mode_of(rules, streak.check, streak.device) != CheckMode::off)
      wanted.push_back({streak.check, streak.device});
  }
  return wanted;
}

constexpr double most_clean_s = 30.0 * 24 * 3600;

Seconds usual_clean_time(const CheckRules& rules, std::string_view check) {
  const CheckSpec* spec = find_check(check);
  const CheckLimit* own = spec ? find_limit(*spec, "clear_after_s") : nullptr;
  if (own && own->usual) return Seconds{static_cast<std::int64_t>(*own->usual)};
  return rules.persistence_of(check) == Persistence::samples ? Seconds{0} : clear_after_event;
}

Seconds clean_time(const CheckRules& rules, std::string_view check, Seconds usual) {
  const double s =
      limit_of(rules.profile, check, "clear_after_s", static_cast<double>(usual.count()));
  if (!(s > 0)) return Seconds{0};
  return Seconds{static_cast<std::int64_t>(std::min(s, most_clean_s))};
}

}  // namespace

std::string cause_code(const HealthFinding& finding) {
  if (finding.check != "gpu.xid" && finding.check != "gpu.sxid") return {};
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  const auto begin = std::ranges::find_if(finding.value, is_digit);
  return {begin, std::find_if_not(begin, finding.value.end(), is_digit)};
}

std::string finding_id(const HealthFinding& finding) {
  const std::string code = cause_code(finding);
  std::uint64_t hash = hash_of_words({finding.check, finding.device, finding.serial, code});
  std::string id(fault_id_digits, '0');
  for (char& digit : id) {
    digit = "0123456789abcdef"[hash & 15];
    hash >>= 4;
  }
  return id;
}

void add_findings(Streaks& streaks, const std::vector<HealthFinding>& findings,
                  const CheckRules& rules, const SampleMoment& at) {
  Worst by_cause;
  Worst by_device;
  for (const HealthFinding& finding : findings) {
    if (mode_of(rules, finding.check, finding.device) == CheckMode::off) continue;
    keep_worst(by_device, key_of(finding.check, finding.device, {}), finding);
    keep_worst(by_cause, key_of(finding.check, finding.device, cause_code(finding)), finding);
  }
  for (const auto& [key, finding] : by_cause) {
    if (finding->status != CheckStatus::pass) add_one(streaks, *finding, rules, at);
  }
  for (const auto& [key, finding] : by_device) {
    if (finding->status == CheckStatus::pass) {
      pass_all_causes(streaks, *finding, by_device, rules, at);
    } else {
      end_passes(streaks, *finding);
    }
  }
  pass_for_node(streaks, by_device, rules, at);
}

std::string stands_until(const ActiveFault& fault) {
  if (!needs_repair(fault)) return "its check has passed for a time";
  if (fault.severity.remedy == Remedy::rma) return "somebody says that it was repaired";
  return fault.severity.remedy == Remedy::reboot ? "a reboot" : "a reset";
}

std::vector<SampleWanted> samples_wanted(const Streaks& streaks, const CheckRules& rules) {
  return samples_where(streaks, rules, [&](const Streak& streak) {
    const bool is_open =
        streak.bad > 0 || (streak.unknown > 0 && is_required(rules.profile, streak.check));
    return is_open && !streak.fault && streak.code.empty();
  });
}

std::vector<SampleWanted> samples_after_remedy(const Streaks& streaks, const CheckRules& rules) {
  return samples_where(streaks, rules, [&](const Streak& streak) {
    return streak.fault && streak.fault->repaired_at &&
           streak.passed < passes_needed(rules, streak.check);
  });
}

const Streak* find_streak(const Streaks& streaks, const std::string& check,
                          const std::string& device, const std::string& code) {
  const auto found = streaks.by_key.find(key_of(check, device, code));
  return found == streaks.by_key.end() ? nullptr : &found->second;
}

bool has_answered(const Streaks& streaks, const std::string& check) {
  const auto first = streaks.by_key.lower_bound(check + between);
  return first != streaks.by_key.end() && is_of_check(first->first, check);
}

void note_reboot(Streaks& streaks, Time now) {
  for (auto& [key, streak] : streaks.by_key) {
    streak.bad = 0;
    streak.unknown = 0;
    if (streak.fault && streak.fault->severity.remedy <= Remedy::reboot) mark_repaired(streak, now);
  }
}

void note_reset(Streaks& streaks, const std::string& device, Time now) {
  for (auto& [key, streak] : streaks.by_key) {
    if (!streak.fault || streak.device != device) continue;
    if (streak.fault->severity.remedy <= Remedy::reset) mark_repaired(streak, now);
  }
}

Persistence catalogue_persistence(std::string_view check) {
  const CheckSpec* spec = find_check(check);
  return spec ? spec->believe : Persistence::samples;
}

CheckRules rules_of(const HealthProfile& profile) {
  return {profile, catalogue_persistence, std::nullopt};
}

CheckMode mode_of(const CheckRules& rules, std::string_view check, std::string_view device) {
  if (is_excluded(rules.profile, check, device)) return CheckMode::off;
  const auto set = setting_of(rules.profile, check).mode;
  if (set) return *set;
  if (is_required(rules.profile, check)) return CheckMode::enforce;
  return rules.unnamed ? *rules.unnamed : usual_mode(rules.profile, check);
}

int bad_samples_needed(const CheckRules& rules, std::string_view check) {
  const auto set = setting_of(rules.profile, check).samples;
  if (set) return std::max(1, *set);
  return rules.persistence_of(check) == Persistence::samples ? usual_samples : 1;
}

int passes_needed(const CheckRules& rules, std::string_view check) {
  return std::max(usual_samples, bad_samples_needed(rules, check));
}

Seconds clean_time_needed(const CheckRules& rules, std::string_view check) {
  return clean_time(rules, check, usual_clean_time(rules, check));
}

Seconds clean_time_after_remedy(const CheckRules& rules, std::string_view check) {
  return clean_time(rules, check, std::min(usual_clean_time(rules, check), clear_after_remedy));
}

}  // namespace muster
