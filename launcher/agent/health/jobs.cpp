// HealthMonitor's part that knows of jobs: whether one may start here and which checks count for
// whom, what is looked for when a rank fails, and when all are gone.
#include <algorithm>

#include "health/model/check.h"
#include "launcher/agent/health/fault_report.h"
#include "launcher/agent/health/monitor.h"

namespace muster {

namespace {

// Of its ten seconds a gate needs the rest for a run of its own.
constexpr std::chrono::seconds concluding_limit{6};

// What a job leaves out stays so until its next attempt had its time to come.
constexpr std::chrono::minutes choice_outlives{5};

bool is_run_in(const std::string& id, Phase phase) {
  const CheckSpec* check = find_check(id);
  return check != nullptr && runs_in(*check, phase);
}

// The end of an attempt is told no later for it: three samples a second apart, and a slow driver.
constexpr std::chrono::seconds failure_limit{5};
// The next gate waits no longer for what the last job left.
constexpr std::chrono::seconds epilog_limit{5};
// A process that is stuck is believed after three times five looks.
constexpr std::chrono::seconds stuck_limit{30};
// A probe that ended or was killed gives its GPUs back within seconds.
constexpr std::chrono::seconds benchmarked_for{15};

constexpr auto process_sources = static_cast<SourceGroups>(SourceGroup::processes);

// Nobody read them while the node was idle: what ranks meet is compared with how it was before.
SourceGroups not_asked_by_gate(const HealthProfile& profile) {
  SourceGroups groups = 0;
  for (const SourceGroup group : every_source_group) {
    if (!has_checks(profile, group, Phase::prolog)) groups = with(groups, group);
  }
  return groups;
}

}  // namespace

void HealthMonitor::begin_job(const JobHealth& job) {
  const bool counts_the_same = job.skip == ranks_.job.skip && job.only == ranks_.job.only;
  ranks_.job = job;
  if (counts_the_same) return;
  if (node_) node_->judged_at.reset();  // what was left out for another job was not asked
  run_.reset();
}

// ---- a gate asks ------------------------------------------------------------------------------

void HealthMonitor::ask(std::vector<std::string> excused, Gated done) {
  if (!node_) return done({});
  questions_.push_back({boot_time(), std::move(excused), std::move(done)});
  step();
}

bool HealthMonitor::must_wait(const Question& question) const {
  return is_concluding() && boot_time() - question.asked_at < concluding_limit;
}

// Each is asked anew whenever a run has ended, until it has its answer.
void HealthMonitor::answer_questions() {
  while (!questions_.empty() && !must_wait(questions_.front())) {
    const BootTime now = boot_time();
    const auto since = [now](BootTime time) {
      return std::chrono::duration_cast<Milliseconds>(now - time);
    };
    const NodeVerdict verdict = verdict_for(questions_.front());
    const auto judged_at = node_->judged_at;
    PrologQuestion question;
    if (judged_at || !reads_sources_) question.verdict = &verdict;
    if (judged_at) question.verdict_age = since(*judged_at);
    question.is_running = run_.has_value();
    question.waited = since(questions_.front().asked_at);
    const PrologStep step = next_prolog_step(question);
    if (const auto* answered = std::get_if<PrologAnswer>(&step)) {
      answer(*answered, verdict);
      continue;
    }
    const auto* quick = std::get_if<RunQuick>(&step);
    const bool can_run = quick != nullptr && !run_ && quick->after <= Milliseconds{0};
    if (!can_run || reader_.is_released()) return;  // asked again at the next poll
    begin_run(Purpose::gate, all_source_groups, moment());
  }
}

void HealthMonitor::answer(const PrologAnswer& answer, const NodeVerdict& verdict) {
  std::vector<CheckFailure> failures;
  if (std::holds_alternative<RefuseNode>(answer)) {
    for (const NodeFault& fault : faults_of(verdict)) {
      if (fault.enforced && fault.remedy >= Remedy::drain)
        failures.push_back({fault.check, fault.what});
    }
  }
  if (const auto* spare = std::get_if<TakeSpare>(&answer)) {
    failures.push_back({"health", spare->why});
  }
  const Gated done = std::move(questions_.front().done);
  questions_.erase(questions_.begin());
  done(std::move(failures));
}

Phase HealthMonitor::phase_of(Purpose purpose) const {
  if (purpose == Purpose::gate) return Phase::prolog;
  if (failure_look() != nullptr) return Phase::on_failure;
  if (!is_idle()) return Phase::periodic;
  // Between jobs the gate's checks are asked as well: the next gate finds a young answer.
  return std::holds_alternative<Epilog>(ranks_.phase) ? Phase::epilog : Phase::prolog;
}

CheckChoice HealthMonitor::choice_in(Phase phase) const {
  const auto idle_since = is_idle() ? ranks_.idle_since : std::nullopt;
  const bool is_over = idle_since && boot_time() - *idle_since > choice_outlives;
  if (is_over && questions_.empty()) return {};
  CheckChoice choice;
  choice.skip = ranks_.job.skip;
  if (phase == Phase::prolog) choice.only = ranks_.job.only;
  return choice;
}

// Processes are looked at for seconds: nobody waits for what becomes of them.
bool HealthMonitor::awaits_confirmation(Phase phase) const {
  constexpr SourceGroups quick = all_source_groups & ~process_sources;
  const CheckChoice choice = choice_in(phase);
  return std::ranges::any_of(node_->health.wanted(), [&](const SampleWanted& one) {
    return (group_of(one.check) & quick) != 0 && is_run_in(one.check, phase) &&
           choice.has(one.check);
  });
}

NodeVerdict HealthMonitor::verdict_for(const Question& question) const {
  NodeVerdict verdict = node_->health.verdict(moment().wall);
  CheckChoice choice = choice_in(Phase::prolog);
  choice.skip.insert(choice.skip.end(), question.excused.begin(), question.excused.end());
  std::erase_if(verdict.drains,
                [&](const ActiveFault& one) { return !choice.has(one.finding.check); });
  // No run of a gate tells more of what is asked at other times only.
  const auto is_not_asked = [&](const SampleWanted& one) {
    return !choice.has(one.check) || !is_run_in(one.check, Phase::prolog);
  };
  std::erase_if(verdict.unclear, is_not_asked);
  std::erase_if(verdict.unconfirmed, is_not_asked);
  return verdict;
}

// ---- a rank failed ----------------------------------------------------------------------------

void HealthMonitor::ranks_killed() {
  if (node_) node_->monitor.on_kill({}, moment());
}

void HealthMonitor::rank_died(const AttemptKey& attempt) {
  if (!node_) return;
  const CheckMoment now = moment();
  read_log(now);  // what killed it may stand there, and is told before the rank's end
  take(node_->monitor.on_job_death(now), now);
  const bool is_wanted = ranks_.job.failure != HealthLevel::off && reads_sources_;
  const auto* decided = std::get_if<Decided>(&ranks_.failure);
  const bool is_known = is_deciding(attempt) || (decided && decided->attempt == attempt);
  if (!is_wanted || is_known) return;
  if (run_ && run_->purpose == Purpose::pace) run_.reset();  // it may watch processes for seconds
  ranks_.failure = FailureLook{attempt, boot_time() + failure_limit};
  step_after(Milliseconds{0});
}

bool HealthMonitor::is_deciding(const AttemptKey& attempt) const {
  return failure_look() != nullptr && failure_look()->attempt == attempt;
}

void HealthMonitor::go_on_deciding() {
  const FailureLook* look = failure_look();
  if (look == nullptr) return;
  const bool is_decided = look->is_read && !awaits_confirmation(Phase::on_failure);
  if (!is_decided && reads_sources_ && boot_time() < look->until) return;
  ranks_.failure = Decided{AttemptKey(look->attempt)};
  if (site_.on_decided) site_.on_decided();
}

// ---- they are gone ----------------------------------------------------------------------------

void HealthMonitor::set_idle(bool is_idle_now) {
  if (is_idle_now == is_idle()) return;
  ranks_.idle_since = boot_time();
  if (!is_idle_now) {
    ranks_.phase = Running{};
    if (node_) node_->health.hurry(not_asked_by_gate(node_->monitor.profile()));
    return;
  }
  ranks_.phase = NoRanks{};
  if (!node_) return;
  if (reads_sources_) ranks_.phase = EpilogDue{};
  const CheckMoment now = moment();
  take(node_->monitor.on_jobs_over(now), now);
  if (reads_sources_) step_after(Milliseconds{0});
}

// A run that has begun would take the probes for leftovers.
void HealthMonitor::note_benchmark() {
  if (!site_.is_benchmarked || !site_.is_benchmarked()) return;
  const bool is_news = !was_benchmarked_lately();
  benchmarked_at_ = boot_time();
  if (is_news && run_ && run_->purpose != Purpose::failure) run_.reset();
}

bool HealthMonitor::was_benchmarked_lately() const {
  return benchmarked_at_ && boot_time() - *benchmarked_at_ < benchmarked_for;
}

void HealthMonitor::go_on_with_epilog() {
  const BootTime now = boot_time();
  const bool is_due = std::holds_alternative<EpilogDue>(ranks_.phase);
  if (is_due && failure_look() == nullptr && !run_) {
    ranks_.phase = Epilog{now + epilog_limit};
    node_->health.hurry(all_source_groups);
  }
  auto* epilog = std::get_if<Epilog>(&ranks_.phase);
  if (epilog == nullptr) return;
  if (now >= epilog->until) epilog->is_judged = true;
  if (now >= epilog->until + stuck_limit) ranks_.phase = NoRanks{};
}

void HealthMonitor::epilog_read(SourceGroups read) {
  auto* epilog = std::get_if<Epilog>(&ranks_.phase);
  if (epilog == nullptr) return;
  const bool has_others = (read & ~process_sources) != 0;
  if (has_others && !awaits_confirmation(Phase::epilog)) epilog->is_judged = true;
  const auto is_stuck = [](const SampleWanted& one) {
    return group_of(one.check) == process_sources;
  };
  const bool is_over = epilog->is_judged && has(read, SourceGroup::processes) &&
                       std::ranges::none_of(node_->health.wanted(), is_stuck);
  if (is_over) ranks_.phase = NoRanks{};
}

bool HealthMonitor::is_concluding() const {
  const auto* epilog = std::get_if<Epilog>(&ranks_.phase);
  return failure_look() != nullptr || std::holds_alternative<EpilogDue>(ranks_.phase) ||
         (epilog != nullptr && !epilog->is_judged);
}

}  // namespace muster
