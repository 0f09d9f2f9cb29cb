// One run of a node's checks: says what to read next until nothing is left, then what was found.
// Several reads may be needed (what a first one showed names more; processes are looked at several
// times). Belongs to its monitor; pure: readings and times in.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "health/checks/host/host_checks.h"
#include "health/model/check.h"
#include "health/model/finding.h"
#include "health/model/profile.h"
#include "health/read/kmsg.h"
#include "health/read/reader_protocol.h"
#include "scheduler/text/clock.h"

namespace muster {

// Which sources a check is judged from, how often they are read, and when a check runs at all. Data
// and pure functions.

using SourceGroups = std::uint8_t;
inline constexpr SourceGroups all_source_groups = 31;
inline constexpr SourceGroup every_source_group[] = {
    SourceGroup::infiniband_state, SourceGroup::infiniband_counters, SourceGroup::gpu,
    SourceGroup::host, SourceGroup::processes};

constexpr bool has(SourceGroups groups, SourceGroup group) {
  return (groups & static_cast<SourceGroups>(group)) != 0;
}
constexpr SourceGroups with(SourceGroups groups, SourceGroup group) {
  return static_cast<SourceGroups>(groups | static_cast<SourceGroups>(group));
}

// How long after a read the next one is due. Without ranks nothing is lost by a later look, but the
// next job wants an answer that is less than a minute old.
std::chrono::milliseconds period_of(SourceGroup group, bool is_idle);

// Of a check that is none, too: not judged from the node's own sources.
SourceGroups group_of(std::string_view check);

// A person who asks, and a qualification, get all checks.
bool runs_in(const CheckSpec& check, Phase phase);
// Whether a check of the phase is judged from the group, and is on in the profile.
bool has_checks(const HealthProfile& profile, SourceGroup group, Phase phase);
// Whether the profile has its check judged at all: of one that is skipped nothing is said any more,
// and a fault that it once found would stand for ever. What just cannot be read is asked for.
bool is_asked_for(const HealthProfile& profile, const HealthFinding& fault);
// Beside what ranks must not be held up by, everything is read: before and between jobs.
bool reads_all(Phase phase);

// Of the first read; what may hang comes last.
std::vector<std::string> sources_of(const HealthProfile& profile, SourceGroups groups, Phase phase);

struct CheckMoment {
  Time wall;
  SinceBoot since_boot{};  // CLOCK_MONOTONIC_RAW
};

// Which checks a job lets count.
struct CheckChoice {
  std::vector<std::string> skip;  // failures of these say nothing; a pass still ends a fault
  std::vector<std::string> only;  // these alone; empty: all
  bool has(std::string_view check) const;
};

// What is known of the node besides its sources.
struct CheckSituation {
  Phase phase = Phase::on_demand;
  SourceGroups groups = all_source_groups;
  std::set<std::string>
      standing{};       // checks with a fault: theirs is the pass that ends it, at any time
  bool is_idle = true;  // no ranks of ours
  std::optional<std::chrono::seconds> job_runs;  // for so long
  const std::map<std::string, std::string>* rank_environment = nullptr;
  std::optional<Milliseconds> clock_offset;  // from the controller's
  NetFacts net;                              // what its peers tell of it
  std::set<std::int64_t> ended_uids;         // users that ran here and may run nothing now
  HelperFacts helper;
  std::string kernel_log_error;  // empty: the log is followed
  bool has_gpu_events = false;
  bool may_pause = true;  // else what needs several looks is left out
  CheckChoice choice;
  // Nothing is believed or suspected: links that say the same again, and passed, need no judge.
  bool is_sound = false;
};

struct ReadNext {
  NodeReadRequest request;
};
struct PauseNext {
  std::chrono::milliseconds time;
};
struct RunOver {};
using RunStep = std::variant<ReadNext, PauseNext, RunOver>;

class NodeMonitor;

class CheckRun {
 public:
  CheckRun(NodeMonitor& monitor, CheckSituation situation);

  RunStep next() const;
  void read(const NodeReadings& readings, const CheckMoment& at);  // after ReadNext
  void paused();                                                   // after PauseNext
  // When it is over: of the checks of the catalogue that have the phase and whose sources were
  // read, without those that the profile turns off or leaves out, and failures that the job does
  // not want to know of. on_demand and qualification: of all.
  const std::vector<HealthFinding>& findings() const { return findings_; }
  // Then there are no findings: they would be those of the last look, which all passed.
  bool is_same() const { return is_same_; }
  // How long the reads took that the finding's source was part of.
  double took_ms(const HealthFinding& finding) const;
  SourceGroups groups() const { return groups_; }  // those with checks of the phase

 private:
  //   sources ──► gpus ──► looks ⇄ pause ──► over
  // What is not wanted is left out.
  enum class Stage { sources, gpus, looks, pause, over };

  void take_sources(const NodeReadings& readings);
  Stage after_gpus() const;
  void judge(const CheckMoment& now);
  bool is_kept(const HealthFinding& finding) const;

  NodeMonitor& monitor_;
  CheckSituation situation_;
  SourceGroups groups_;
  Stage stage_ = Stage::sources;
  SourceFiles files_;
  std::optional<GpuReadings> gpus_;
  std::vector<SourceFiles> looks_;  // at processes
  CheckMoment sources_at_;
  CheckMoment gpus_at_;
  std::chrono::milliseconds files_took_{0};
  std::chrono::milliseconds gpus_took_{0};
  std::chrono::milliseconds looks_took_{0};
  bool is_same_ = false;
  std::vector<HealthFinding> findings_;
};

}  // namespace muster
