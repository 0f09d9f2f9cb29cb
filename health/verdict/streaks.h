// From samples to what is believed of a node: a fault stands after enough bad samples in a row, and
// is over after enough passes. Per check, device and cause. Plain data, saved with the agent's
// state; the functions are pure, one thread at a time.
//
//          bad, fewer than needed            the last one needed
//   sound ────────────────────────► suspected ───────────────────► fault stands
//     ▲ ◄──────────── pass ────────────┘                                 │
//     └──── passes in a row, clean for its time, repaired where that is needed ◄┘
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "health/model/check.h"
#include "health/model/finding.h"
#include "health/model/profile.h"
#include "scheduler/text/clock.h"
#include "scheduler/text/fields.h"

namespace muster {

// How seriously a check is taken on a device: its setting in the profile, or the usual one. Pure.

// Bad ones in a row before a state is believed: one poll at boot flags healthy nodes. As many
// passes before a fault is over, and as many unknowns of a required check before they drain.
inline constexpr int usual_samples = 3;
inline constexpr Seconds fast_sampling{1};
// Links train for minutes after a boot.
inline constexpr Seconds link_settling{300};
// A counter that only warns drains when it grew in so many of so many reads (NVRx).
inline constexpr int often_windows = 15;
inline constexpr int often_of_windows = 30;
// An event's next poll passes already, whatever broke.
inline constexpr Seconds clear_after_event{600};
// When what it called for has been done.
inline constexpr Seconds clear_after_remedy{60};

struct CheckRules {
  const HealthProfile& profile;
  // Of a check: the catalogue's, samples when it is not in there.
  Persistence (*persistence_of)(std::string_view check);
  // Of a check that the profile neither sets nor requires; nothing: usual_mode().
  std::optional<CheckMode> unnamed;
};

Persistence catalogue_persistence(std::string_view check);
CheckRules rules_of(const HealthProfile& profile);

// Off too where the profile leaves the device out, itself ("mlx5_an0") or with its ports.
CheckMode mode_of(const CheckRules& rules, std::string_view check, std::string_view device);
int bad_samples_needed(const CheckRules& rules, std::string_view check);
int passes_needed(const CheckRules& rules, std::string_view check);
// Since the last bad sample, before a fault is over; `clear_after_s` of the profile.
Seconds clean_time_needed(const CheckRules& rules, std::string_view check);
// The same when what the fault called for has been done.
Seconds clean_time_after_remedy(const CheckRules& rules, std::string_view check);

// More than any node has checks and devices; what is over and sound makes room.
inline constexpr std::size_t streaks_kept = 8192;

// What is believed to be wrong.
struct ActiveFault {
  HealthFinding finding;   // the worst failure since it stands; unknown: its source cannot be read
  CheckSeverity severity;  // what is called for
  Persistence persistence = Persistence::samples;
  std::string id;
  Time first_seen;  // the first bad sample
  Time since;       // believed
  Time last_bad;
  std::string job;                  // the one that ran then
  std::optional<Time> repaired_at;  // what is called for was done

  MUSTER_FIELDS((check, finding.check), (device, finding.device), (serial, finding.serial),
                (status, finding.status), (found_remedy, finding.severity.remedy),
                (found_on_recurrence, finding.severity.on_recurrence),
                (found_stops_job, finding.severity.stops_job), (class, finding.fault_class),
                (value, finding.value), (expected, finding.expected), (unit, finding.unit),
                (source, finding.source), (evidence, finding.evidence), (remedy, severity.remedy),
                (on_recurrence, severity.on_recurrence), (stops_job, severity.stops_job),
                persistence, id, first_seen, since, last_bad, job, repaired_at)
};

struct Streak {
  std::string check;
  std::string device;
  std::string code;  // of the cause: an XID
  CheckStatus last = CheckStatus::unknown;
  int bad = 0;               // since the last pass
  int unknown = 0;           // since the last answer
  int passed = 0;            // since the last other one
  std::int64_t windows = 0;  // the last 30 answers, the newest in the lowest bit; 1: bad
  Time first_bad;            // meaningful while `bad` or `unknown` is not 0
  std::optional<ActiveFault> fault;
  std::string cleared_id;  // of the last fault that was over

  MUSTER_FIELDS(check, device, code, last, bad, unknown, passed, windows, first_bad, fault,
                cleared_id)
};

struct Streaks {
  std::map<std::string, Streak> by_key;  // see key_of

  MUSTER_FIELDS(by_key)
};

struct SampleMoment {
  Time now;
  std::optional<Seconds> uptime;  // of the host
  std::string job;                // that runs there; empty: none
};

// The findings of one run. Of several on one device the worst counts. A pass of the node as a whole
// is one of each device that the run says nothing else of; those of all devices
// are one of what the log told without a device.
void add_findings(Streaks& streaks, const std::vector<HealthFinding>& findings,
                  const CheckRules& rules, const SampleMoment& at);

struct SampleWanted {
  std::string check;
  std::string device;
  friend bool operator==(const SampleWanted&, const SampleWanted&) = default;

  MUSTER_FIELDS(check, device)
};
// What one more sample decides about: to be read again after `fast_sampling`.
std::vector<SampleWanted> samples_wanted(const Streaks& streaks, const CheckRules& rules);

// Faults whose remedy was done: as many passes as they need are waited for.
std::vector<SampleWanted> samples_after_remedy(const Streaks& streaks, const CheckRules& rules);

// Until when a fault stands that no longer shows: "a reboot".
std::string stands_until(const ActiveFault& fault);

// What tells faults of one check apart: the number of an XID or SXid; empty for other checks.
std::string cause_code(const HealthFinding& finding);

// 8 hexadecimal digits of check, device, serial and cause: the same for the same fault, on any
// machine, at any time.
std::string finding_id(const HealthFinding& finding);

// Nothing: such a check never answered for the device.
const Streak* find_streak(const Streaks& streaks, const std::string& check,
                          const std::string& device, const std::string& code = {});

// For any device.
bool has_answered(const Streaks& streaks, const std::string& check);

// The host booted: what was suspected before is no more, what called for a reset or a reboot has
// had it. A fault of `rma` is over when a person says so: then an agent forgets its streak.
void note_reboot(Streaks& streaks, Time now);
void note_reset(Streaks& streaks, const std::string& device, Time now);

}  // namespace muster
