// What becomes of one node: the findings of its monitor to faults that stand, to a verdict; what
// each check said last, for display; and which sources are due when. Belongs to whoever runs the
// checks: an agent for its life, `muster health` for one run. Pure; one thread. What it remembers
// is bounded, plain data.
//
//   pace() ─► CheckRun of the groups that are due ─► take(findings) ─► verdict()
#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "health/model/finding.h"
#include "health/model/profile.h"
#include "health/monitor/check_run.h"
#include "health/verdict/node_verdict.h"
#include "health/verdict/streaks.h"
#include "scheduler/text/clock.h"
#include "scheduler/text/fields.h"

namespace muster {

struct NodeHealthMemory {
  std::string boot_id;
  Streaks streaks;

  MUSTER_FIELDS(boot_id, streaks)
};

// Where findings come from.
struct FindingsTaken {
  CheckMoment at;
  SourceGroups groups = 0;  // that the run was asked for; 0: live events
  std::string job;          // that runs there; empty: none
};

struct LatestFinding {
  HealthFinding finding;
  Time seen;
};

struct SourcesDue {
  SourceGroups groups = 0;  // to be read now
  Milliseconds next_in{0};  // when to ask again; 0: after that read
};

class NodeHealth {
 public:
  explicit NodeHealth(HealthProfile profile, NodeHealthMemory saved = {});
  NodeHealth(const NodeHealth&) = delete;  // its rules refer to its profile
  NodeHealth& operator=(const NodeHealth&) = delete;

  // Another boot id than the saved one: what called for a reboot has had it.
  void begin(const std::string& boot_id, const CheckMoment& now);
  void take(const std::vector<HealthFinding>& findings, const FindingsTaken& taken);
  // Its checks are asked at once, and often, until they have passed.
  void on_reset(const std::string& gpu, Time now);

  // What the profile does not have judged is remembered, and does not count.
  NodeVerdict verdict(Time now) const;
  // By check and device.
  const std::map<std::pair<std::string, std::string>, LatestFinding>& latest() const {
    return latest_;
  }
  const std::vector<SampleWanted>& wanted() const { return wanted_; }
  std::set<std::string> checks_with_faults() const;
  // Nothing is believed, and no sample is wanted.
  bool is_sound() const;

  // `is_idle`: no ranks of ours. What is bad but not yet believed, or has had its remedy and not
  // yet passed, is due again after a second, for some minutes at most: of a device that left
  // nothing more will be said.
  SourcesDue pace(const CheckMoment& now, bool is_idle) const;
  // Something that they would tell more of has just happened.
  void hurry(SourceGroups groups);

  NodeHealthMemory memory() const { return {boot_id_, streaks_}; }
  Streaks& streaks() { return streaks_; }
  const CheckRules& rules() const { return rules_; }

 private:
  void judge(const std::vector<HealthFinding>& findings, const FindingsTaken& taken);
  void count_fast_reads(SourceGroups read);
  void show(const std::vector<HealthFinding>& findings, Time now);
  void note_wanted();
  void ask_after_remedy(SourceGroups just_read);

  HealthProfile profile_;
  CheckRules rules_;
  std::string boot_id_;
  Streaks streaks_;
  std::vector<SampleWanted> wanted_;    // of the streaks: to be had often
  std::vector<SampleWanted> remedied_;  // the same, of faults that had their remedy
  std::map<std::pair<std::string, std::string>, LatestFinding> latest_;
  std::map<SourceGroup, SinceBoot> read_at_;
  std::map<SourceGroup, int> fast_reads_;  // in a row
};

}  // namespace muster
