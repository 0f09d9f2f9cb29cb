// HealthWatch's part that knows of jobs: what is read when ranks fail and when they are gone, and
// which checks count for whom.
#include <algorithm>

#include "health/model/check.h"
#include "health/monitor/node_health.h"
#include "health/monitor/node_monitor.h"
#include "health/read/node_reader.h"
#include "launcher/agent/health/monitor.h"

namespace muster {

namespace {

// The end of an attempt is told no later for it: three samples a second apart, and a slow driver.
constexpr std::chrono::seconds failure_limit{5};
// The next gate waits no longer for what the last job left.
constexpr std::chrono::seconds epilog_limit{5};
// A process that is stuck is believed after three times five looks.
constexpr std::chrono::seconds stuck_limit{30};
// Of its ten seconds a gate needs the rest for a run of its own.
constexpr std::chrono::seconds concluding_limit{6};

// A probe that ended or was killed gives its GPUs back within seconds.
constexpr std::chrono::seconds measured_for{15};

// What a job leaves out stays so until its next attempt had its time to come.
constexpr std::chrono::minutes choice_outlives{5};

constexpr auto processes = static_cast<SourceGroups>(SourceGroup::processes);

// Nobody read them while the node was idle: what ranks meet is compared with how it was before.
SourceGroups not_asked_by_gate(const HealthProfile& profile) {
  SourceGroups groups = 0;
  for (const SourceGroup group : every_source_group) {
    if (!has_checks(profile, group, Phase::prolog)) groups = with(groups, group);
  }
  return groups;
}

bool is_run_in(const std::string& id, Phase phase) {
  const CheckSpec* check = find_check(id);
  return check != nullptr && runs_in(*check, phase);
}

}  // namespace

// ---- a job ------------------------------------------------------------------------------------

void HealthWatch::begin_job(const JobHealth& job) {
  const bool counts_the_same = job.skip == job_.skip && job.only == job_.only;
  job_ = job;
  if (counts_the_same) return;
  judged_at_.reset();  // what was left out for another job was not asked
  run_.reset();
}

void HealthWatch::ranks_killed() {
  if (monitor_) monitor_->on_kill({}, moment());
}

void HealthWatch::rank_died(const AttemptKey& attempt) {
  if (!monitor_) return;
  const CheckMoment now = moment();
  read_log(now);  // what killed it may stand there, and is told before the rank's end
  take(monitor_->on_job_death(now), now);
  const bool is_wanted = job_.failure != HealthLevel::off && reads_sources_;
  if (!is_wanted || failed_ == attempt) return;
  failed_ = attempt;
  if (purpose_ == Purpose::pace) run_.reset();  // it may watch processes for seconds
  failure_ = FailureLook{attempt, boot_time() + failure_limit, false};
  step_after(Milliseconds{0});
}

bool HealthWatch::is_deciding(const AttemptKey& attempt) const {
  return failure_ && failure_->attempt == attempt;
}

void HealthWatch::go_on_deciding() {
  if (!failure_) return;
  const bool is_decided = failure_->is_over && !awaits_confirmation(Phase::on_failure);
  if (!is_decided && reads_sources_ && boot_time() < failure_->until) return;
  failure_.reset();
  if (site_.on_decided) site_.on_decided();
}

// ---- its end ----------------------------------------------------------------------------------

void HealthWatch::set_idle(bool is_idle) {
  if (is_idle == is_idle_) return;
  is_idle_ = is_idle;
  idle_since_ = boot_time();
  epilog_.reset();
  owes_epilog_ = is_idle && health_ && reads_sources_;
  if (!health_) return;
  if (!is_idle) return health_->hurry(not_asked_by_gate(monitor_->profile()));
  const CheckMoment now = moment();
  take(monitor_->on_jobs_over(now), now);
  if (owes_epilog_) step_after(Milliseconds{0});
}

// A run that has begun would take the probes for leftovers.
void HealthWatch::note_measuring() {
  if (!site_.is_measured || !site_.is_measured()) return;
  const bool is_news = !was_measured_lately();
  measured_at_ = boot_time();
  if (is_news && run_ && purpose_ != Purpose::failure) run_.reset();
}

bool HealthWatch::was_measured_lately() const {
  return measured_at_ && boot_time() - *measured_at_ < measured_for;
}

void HealthWatch::go_on_with_epilog() {
  if (owes_epilog_ && !failure_ && !run_) {
    owes_epilog_ = false;
    epilog_ = Epilog{boot_time() + epilog_limit, false};
    health_->hurry(all_source_groups);
  }
  if (!epilog_) return;
  const BootTime now = boot_time();
  if (now >= epilog_->until) epilog_->is_judged = true;
  if (now >= epilog_->until + stuck_limit) epilog_.reset();
}

void HealthWatch::epilog_read(SourceGroups read) {
  if (!epilog_) return;
  const bool has_others = (read & ~processes) != 0;
  if (has_others && !awaits_confirmation(Phase::epilog)) epilog_->is_judged = true;
  const auto is_stuck = [](const SampleWanted& one) { return group_of(one.check) == processes; };
  const bool is_over = epilog_->is_judged && has(read, SourceGroup::processes) &&
                       std::ranges::none_of(health_->wanted(), is_stuck);
  if (is_over) epilog_.reset();
}

bool HealthWatch::is_concluding() const {
  return failure_ || owes_epilog_ || (epilog_ && !epilog_->is_judged);
}

bool HealthWatch::must_wait(const Question& question) const {
  return is_concluding() && boot_time() - question.asked_at < concluding_limit;
}

// ---- what is read, and what counts ------------------------------------------------------------

Phase HealthWatch::phase_of(Purpose purpose) const {
  if (purpose == Purpose::gate) return Phase::prolog;
  if (failure_) return Phase::on_failure;
  if (!is_idle_) return Phase::periodic;
  // Between jobs the gate's checks are asked as well: the next gate finds a young answer.
  return epilog_ ? Phase::epilog : Phase::prolog;
}

CheckChoice HealthWatch::choice_in(Phase phase) const {
  const bool is_over = is_idle_ && idle_since_ && boot_time() - *idle_since_ > choice_outlives;
  if (is_over && questions_.empty()) return {};
  CheckChoice choice;
  choice.skip = job_.skip;
  if (phase == Phase::prolog) choice.only = job_.only;
  return choice;
}

// Processes are looked at for seconds: nobody waits for what becomes of them.
bool HealthWatch::awaits_confirmation(Phase phase) const {
  const CheckChoice choice = choice_in(phase);
  const std::vector<SampleWanted> wanted = health_->wanted();
  return std::ranges::any_of(wanted, [&](const SampleWanted& one) {
    constexpr SourceGroups quick = all_source_groups & ~processes;
    return (group_of(one.check) & quick) != 0 && is_run_in(one.check, phase) &&
           choice.has(one.check);
  });
}

NodeVerdict HealthWatch::verdict_for(const Question& question) const {
  NodeVerdict verdict = health_->verdict(moment().wall);
  CheckChoice choice = choice_in(Phase::prolog);
  choice.skip.insert(choice.skip.end(), question.excused.begin(), question.excused.end());
  std::erase_if(verdict.drains,
                [&](const StandingFault& one) { return !choice.has(one.finding.check); });
  // No run of a gate tells more of what is asked at other times only.
  const auto is_not_asked = [&](const SampleWanted& one) {
    return !choice.has(one.check) || !is_run_in(one.check, Phase::prolog);
  };
  std::erase_if(verdict.unclear, is_not_asked);
  std::erase_if(verdict.unconfirmed, is_not_asked);
  return verdict;
}

}  // namespace muster
