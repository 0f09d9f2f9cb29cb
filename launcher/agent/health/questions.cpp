// HealthMonitor's part that a gate asks: whether a job may start here, and which checks count for
// whom.
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

}  // namespace

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
  constexpr SourceGroups quick =
      all_source_groups & ~static_cast<SourceGroups>(SourceGroup::processes);
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
