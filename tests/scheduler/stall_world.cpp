#include "tests/scheduler/stall_world.h"

#include <algorithm>
#include <cmath>

namespace muster::test {

namespace {

constexpr double tick_s = 0.5;
// As launcher/agent/watch/activity.cpp: what a rank stops doing is told after ten seconds.
constexpr double calm_s = 10;

Milliseconds ms(double seconds) {
  return Milliseconds{static_cast<std::int64_t>(std::llround(seconds * 1000))};
}

StallWatch::Subject subject_of(const RunPlan& plan) {
  StallWatch::Subject subject{JobId{"train"}, AttemptId{0}, plan.settings, {}, plan.beat_before};
  for (int i = 0; i < plan.ranks; ++i) {
    subject.nodes.push_back(NodeId{"h" + std::to_string(i / 8)});
  }
  return subject;
}

bool is_lasting(Doing doing) {
  return doing == Doing::stopped || doing == Doing::stuck;
}

}  // namespace

StallWorld::StallWorld(RunPlan plan, unsigned seed)
    : plan_(std::move(plan)),
      random_(seed),
      watch_(subject_of(plan_), Milliseconds{0}),
      phase_{plan_.first_step_s, Doing::moving, Doing::working, true},
      seen_(static_cast<std::size_t>(plan_.ranks)) {}

double StallWorld::length_of_step() {
  const double normal = std::normal_distribution<double>(0, plan_.spread)(random_);
  const bool is_slow = now_s_ >= plan_.spell.from_s && now_s_ < plan_.spell.to_s;
  return plan_.step_s * std::exp(normal) * (is_slow ? plan_.spell.factor : 1);
}

void StallWorld::next_phase() {
  if (phase_.is_step) {
    ++step_;
    for (const Pause& pause : {plan_.save, plan_.evaluation}) {
      if (pause.every > 0 && step_ % pause.every == 0) due_.push_back(pause);
    }
  }
  if (due_.empty()) {
    phase_ = {phase_.ends_s + length_of_step(), plan_.computing, plan_.computing, true};
  } else {
    phase_ = {phase_.ends_s + due_.back().seconds, due_.back().rank0, due_.back().others, false};
    due_.pop_back();
  }
}

bool StallWorld::is_hit() const {
  if (!plan_.fault || now_s_ < plan_.fault->at_s) return false;
  return !plan_.fault->heals_s || now_s_ < plan_.fault->at_s + *plan_.fault->heals_s;
}

Doing StallWorld::doing_of(int rank) const {
  if (is_hit()) return rank == plan_.fault->rank ? plan_.fault->becomes : plan_.waiting;
  return rank == 0 ? phase_.rank0 : phase_.others;
}

// Stopped: seen twice; stuck: for ten seconds; that something is done no more: after ten seconds.
void StallWorld::sample(int rank) {
  Seen& seen = seen_[static_cast<std::size_t>(rank)];
  const Doing now = doing_of(rank);
  if (now != seen.now) {
    seen.now = now;
    seen.since_s = now_s_;
  }
  const double age_s = now_s_ - seen.since_s;
  const bool rises = !is_lasting(now) && now < seen.told;
  const bool at_once = rises || is_lasting(seen.told);
  const double wait_s = now == Doing::stopped ? tick_s : at_once ? 0 : calm_s;
  if (now == seen.told || age_s < wait_s) return;
  seen.told = now;
  const char* process = is_lasting(now) ? "1 (python)" : "";  // as agents have it
  watch_.does({RankId{rank}, now, static_cast<std::int64_t>(age_s * 1000), process}, ms(now_s_));
}

void StallWorld::tick() {
  now_s_ += tick_s;
  if (is_hit()) {
    phase_.ends_s += tick_s;
  }
  const int before = step_;
  while (phase_.ends_s <= now_s_) next_phase();
  for (int rank = 0; rank < plan_.ranks; ++rank) {
    sample(rank);
    const bool beats = plan_.beats && (rank == 0 || !plan_.only_rank0_beats);
    if (beats && step_ != before) watch_.stepped(RankId{rank}, step_, ms(now_s_));
  }
}

std::vector<Told> StallWorld::run(double seconds) {
  std::vector<Told> told;
  for (const double end_s = now_s_ + seconds; now_s_ < end_s;) {
    tick();
    if (auto what = watch_.look(ms(now_s_))) told.push_back({now_s_, std::move(*what)});
  }
  return told;
}

int count_of(const std::vector<Told>& told, StallKind kind) {
  return static_cast<int>(std::count_if(told.begin(), told.end(), [kind](const Told& one) {
    return one.what.stall == kind;
  }));
}

const Told* first_of(const std::vector<Told>& told, StallKind kind) {
  for (const Told& one : told) {
    if (one.what.stall == kind) return &one;
  }
  return nullptr;
}

}  // namespace muster::test
