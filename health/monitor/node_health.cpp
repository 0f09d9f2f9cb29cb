#include "health/monitor/node_health.h"

#include <algorithm>
#include <tuple>

namespace muster {

namespace {

// What no run has said anew for a day is of a device that left, or of a check that no longer runs.
constexpr Milliseconds shown_for = std::chrono::hours(24);
constexpr std::size_t shown_max = 8192;
// More than the samples that a profile may want before it believes a check.
constexpr int fast_reads_max = 120;

bool is_worse(const HealthFinding& one, const HealthFinding& other) {
  return std::tuple(badness_of(one.status), one.severity.remedy) >
         std::tuple(badness_of(other.status), other.severity.remedy);
}

SourceGroups both(SourceGroups one, SourceGroups other) {
  return static_cast<SourceGroups>(one | other);
}

SourceGroups groups_of(const std::vector<SampleWanted>& samples, bool is_idle) {
  SourceGroups groups = 0;
  for (const SampleWanted& sample : samples) {
    // What only a gate looks at is not looked at while ranks run.
    const CheckSpec* check = find_check(sample.check);
    if (check && !is_idle && !runs_in(*check, Phase::periodic)) continue;
    groups = both(groups, group_of(sample.check));
  }
  return groups;
}

}  // namespace

NodeHealth::NodeHealth(HealthProfile profile, NodeHealthMemory saved)
    : profile_(std::move(profile)),
      rules_(rules_of(profile_)),
      boot_id_(std::move(saved.boot_id)),
      streaks_(std::move(saved.streaks)) {
  note_wanted();
}

void NodeHealth::begin(const std::string& boot_id, const CheckMoment& now) {
  if (!boot_id.empty() && boot_id != boot_id_) {  // one that cannot be read may be the same
    if (!boot_id_.empty()) note_reboot(streaks_, now.wall);
    latest_.clear();
    boot_id_ = boot_id;
  }
  note_wanted();
  read_at_.clear();
}

void NodeHealth::take(const std::vector<HealthFinding>& findings, const FindingsTaken& taken) {
  for (const SourceGroup group : every_source_group) {
    if (has(taken.groups, group)) read_at_[group] = taken.at.since_boot;
  }
  if (!findings.empty()) judge(findings, taken);
  count_fast_reads(taken.groups);
}

void NodeHealth::judge(const std::vector<HealthFinding>& findings, const FindingsTaken& taken) {
  using std::chrono::duration_cast;
  bool was_reset = false;
  for (const HealthFinding& finding : findings) {
    const bool is_reset = finding.check == "gpu.reset" && finding.status == CheckStatus::pass;
    if (is_reset) note_reset(streaks_, finding.device, taken.at.wall);
    was_reset = was_reset || is_reset;
  }
  add_findings(streaks_, findings, rules_,
               {taken.at.wall, duration_cast<Seconds>(taken.at.since_boot), taken.job});
  note_wanted();
  show(findings, taken.at.wall);
  if (was_reset) ask_after_remedy(taken.groups);
}

void NodeHealth::count_fast_reads(SourceGroups read) {
  const SourceGroups open = both(groups_of(wanted_, true), groups_of(remedied_, true));
  for (const SourceGroup group : every_source_group) {
    if (!has(open, group)) {
      fast_reads_.erase(group);
    } else if (has(read, group)) {
      fast_reads_[group] = std::min(fast_reads_[group] + 1, fast_reads_max);
    }
  }
}

void NodeHealth::show(const std::vector<HealthFinding>& findings, Time now) {
  for (const HealthFinding& finding : findings) {
    const std::pair key(finding.check, finding.device);
    const auto known = latest_.find(key);
    if (known == latest_.end() && latest_.size() >= shown_max) continue;
    // Of several in one run the worst.
    const bool is_of_this_run = known != latest_.end() && known->second.seen == now;
    if (is_of_this_run && is_worse(known->second.finding, finding)) continue;
    latest_.insert_or_assign(key, LatestFinding{finding, now});
  }
  std::erase_if(latest_, [&](const auto& one) { return now - one.second.seen > shown_for; });
}

void NodeHealth::on_reset(const std::string& gpu, Time now) {
  note_reset(streaks_, gpu, now);
  note_wanted();
  ask_after_remedy(0);
}

void NodeHealth::note_wanted() {
  wanted_ = samples_wanted(streaks_, rules_);
  remedied_ = samples_after_remedy(streaks_, rules_);
}

void NodeHealth::ask_after_remedy(SourceGroups just_read) {
  const SourceGroups groups = groups_of(remedied_, true);
  for (const SourceGroup group : every_source_group) {
    if (!has(groups, group)) continue;
    fast_reads_.erase(group);
    if (!has(just_read, group)) read_at_.erase(group);
  }
}

std::set<std::string> NodeHealth::checks_with_faults() const {
  std::set<std::string> checks;
  for (const auto& [key, streak] : streaks_.by_key) {
    if (streak.fault) checks.insert(streak.check);
  }
  return checks;
}

bool NodeHealth::is_sound() const {
  const auto is_believed = [&](const auto& item) {
    return item.second.fault && is_asked_for(profile_, item.second.fault->finding);
  };
  return wanted_.empty() && std::ranges::none_of(streaks_.by_key, is_believed);
}

NodeVerdict NodeHealth::verdict(Time now) const {
  NodeVerdict verdict = judge_node(streaks_, rules_, now);
  const auto is_skipped = [&](const ActiveFault& fault) {
    return !is_asked_for(profile_, fault.finding);
  };
  for (auto* list : {&verdict.drains, &verdict.would_drain, &verdict.warnings}) {
    std::erase_if(*list, is_skipped);
  }
  std::erase_if(verdict.unconfirmed, [&](const SampleWanted& sample) {
    const CheckSpec* check = find_check(sample.check);
    return check != nullptr &&
           !is_asked_for(profile_, make_finding(*check, sample.device, CheckStatus::fail));
  });
  return verdict;
}

SourcesDue NodeHealth::pace(const CheckMoment& now, bool is_idle) const {
  const SourceGroups fast = both(groups_of(wanted_, is_idle), groups_of(remedied_, is_idle));
  SourcesDue due;
  std::optional<SinceBoot> next;
  for (const SourceGroup group : every_source_group) {
    const auto read = read_at_.find(group);
    SinceBoot period = period_of(group, is_idle);
    const auto reads = fast_reads_.find(group);
    const bool is_fast =
        has(fast, group) && reads != fast_reads_.end() && reads->second < fast_reads_max;
    if (is_fast) period = std::min<SinceBoot>(period, fast_sampling);
    // A clock that went back is another boot's.
    const bool is_due = read == read_at_.end() || now.since_boot < read->second ||
                        now.since_boot - read->second >= period;
    if (is_due) {
      due.groups = with(due.groups, group);
    } else {
      const SinceBoot left = read->second + period - now.since_boot;
      next = next ? std::min(*next, left) : left;
    }
  }
  if (due.groups == 0 && next)
    due.next_in = std::max(Milliseconds{1}, std::chrono::duration_cast<Milliseconds>(*next));
  return due;
}

void NodeHealth::hurry(SourceGroups groups) {
  for (const SourceGroup group : every_source_group) {
    if (has(groups, group)) read_at_.erase(group);
  }
}

}  // namespace muster
