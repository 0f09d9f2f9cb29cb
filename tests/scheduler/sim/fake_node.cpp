#include "tests/scheduler/sim/fake_node.h"

#include <algorithm>
#include <csignal>

#include "scheduler/state/lookup.h"
#include "tests/scheduler/builders.h"

namespace muster::test {

bool FakeAttempt::is_alive() const {
  return std::any_of(ranks.begin(), ranks.end(), [](const FakeRank& rank) { return rank.alive; });
}

void FakeNode::start_agent(int number, Time now) {
  kill_agent();
  agent = number;
  last_heard = now;
}

void FakeNode::kill_agent() {
  agent = 0;
  attempts.clear();
  outbox_.clear();
  newest_attempt_.clear();
}

void FakeNode::reboot() {
  kill_agent();
  boot += 1;
  processes_stick = false;
}

void FakeNode::live(Time now, Milliseconds lease) {
  if (agent == 0) return;
  if (now - last_heard >= lease) return kill_agent();
  for (auto& [key, attempt] : attempts) run(key, attempt, now);
}

void FakeNode::run(const Key& key, FakeAttempt& attempt, Time now) {
  if (attempt.stopping) return stop(key, attempt.leaves, now);
  for (FakeRank& rank : attempt.ranks) {
    if (rank.alive && rank.ends <= now) end_rank(key, rank, rank.exit, false, now);
  }
  if (!attempt.is_alive() || attempt.waits || !dice_.chance(20)) return;
  attempt.step += 10;
  const CheckpointRef checkpoint = sealed(attempt.step, key.second.value + 1);
  CheckpointRef& newest = disk_[key.first];
  if (checkpoint.step > newest.step) newest = checkpoint;
  report(now, ProgressSeen{key.first, key.second, attempt.step, newest});
}

void FakeNode::end_rank(const Key& key, FakeRank& rank, ExitStatus status, bool asked, Time now) {
  rank.alive = false;
  report(now, RankExited{key.first, key.second, id, rank.id, status, asked, to_ms(now), {}});
}

void FakeNode::kill_ranks(Time now) {
  for (auto& [key, attempt] : attempts) {
    for (FakeRank& rank : attempt.ranks) {
      if (rank.alive && !attempt.stopping) end_rank(key, rank, {0, SIGKILL}, false, now);
    }
  }
}

void FakeNode::report(Time now, Observation what) {
  outbox_.push_back({now + dice_.time(0, 500), std::move(what)});
}

std::vector<Observation> FakeNode::take_reports(Time now) {
  std::vector<Observation> arrived;
  std::deque<Report> later;
  for (Report& each : outbox_) {
    const bool due = each.due <= now;
    const bool again = due && dice_.chance(10);
    if (due) arrived.push_back(each.what);
    if (again) each.due = now + dice_.time(100, 60'000);
    if (!due || again) later.push_back(std::move(each));
  }
  outbox_ = std::move(later);
  return arrived;
}

void FakeNode::handle(const NodeWork& work, const Job& job, Time now, bool faults) {
  std::optional<CheckpointRef> newest;
  if (disk_.count(work.job)) newest = disk_[work.job];
  if (std::holds_alternative<CheckWork>(work.work)) {
    if (dice_.chance(30)) newest.reset();  // its view of the storage is stale
    NodeChecked checked{work.job, work.attempt, id, {}, newest};
    if (!healthy) checked.failures.push_back({"gpu_count", "found 7, wanted 8"});
    return report(now, checked);
  }
  if (std::holds_alternative<StageWork>(work.work)) {
    if (stages_never) return;
    return report(now, NodeStaged{work.job, work.attempt, id, stages_badly ? "disk full" : ""});
  }
  if (const auto* reserve = std::get_if<ReserveWork>(&work.work)) {
    std::vector<int> ports(static_cast<std::size_t>(reserve->count), 20000);
    return report(now, PortsReserved{work.job, work.attempt, id, ports, ""});
  }
  if (std::holds_alternative<StartWork>(work.work)) return start(work, job, now, faults);
  if (const auto* why = std::get_if<StopWork>(&work.work)) {
    return stop({work.job, work.attempt}, why->leaves, now);
  }
  if (std::holds_alternative<MembersWork>(work.work)) return report_members(work, job, now, faults);
  report(now, OutputsCollected{work.job, work.attempt, id, ""});
}

void FakeNode::start(const NodeWork& work, const Job& job, Time now, bool faults) {
  std::int64_t& newest = newest_attempt_[work.job];
  if (work.attempt.value < newest) return;
  newest = work.attempt.value;
  const auto [entry, is_new] = attempts.try_emplace({work.job, work.attempt});
  if (is_new) {
    const Attempt* attempt = active_attempt(job);
    entry->second.step = attempt->resume_from ? attempt->resume_from->step : 0;
    const Time ends = now + dice_.time(5'000, faults ? 200'000 : 40'000);
    const AttemptNode& self = attempt->nodes.at(static_cast<std::size_t>(work.node_index));
    entry->second.waits = self.join.has_value();
    for (const Rank& rank : attempt->ranks) {
      if (rank.node_index != work.node_index) continue;
      FakeRank fake{rank.id, true, self.join ? now + Seconds{360'000} : ends, {}};
      const Time fails = now + dice_.time(0, 60'000);
      if (faults && dice_.chance(15)) fake = {rank.id, true, fails, {1, 0}};
      entry->second.ranks.push_back(fake);
    }
  }
  report(now, NodeStarted{work.job, work.attempt, id, ""});
  const bool gets_ready = entry->second.waits && !(faults && dice_.chance(10));
  if (is_new && gets_ready) {
    outbox_.push_back({now + dice_.time(600, 30'000), NodeReady{work.job, work.attempt, id}});
  }
}

// Ranks that are no members (any more) end by themselves; those that waited begin.
void FakeNode::report_members(const NodeWork& work, const Job& job, Time now, bool faults) {
  const Attempt* known = active_attempt(job);
  MembersTold told{work.job, work.attempt, id, known->members.epoch, ""};
  const auto held = attempts.find({work.job, work.attempt});
  if (held == attempts.end())
    told.error = "no such attempt";
  else if (faults && dice_.chance(2))
    told.error = "disk full";
  if (!told.error.empty()) return report(now, std::move(told));
  FakeAttempt& attempt = held->second;
  const bool waited = attempt.waits;
  for (FakeRank& rank : attempt.ranks) {
    const auto& members = known->members.ranks;
    const bool is_member = std::find(members.begin(), members.end(), rank.id) != members.end();
    if (!is_member)
      rank.ends = std::min(rank.ends, now + dice_.time(0, 5'000));
    else if (waited)
      rank.ends = now + dice_.time(5'000, 40'000);
    attempt.waits = attempt.waits && !is_member;
  }
  attempt.members_epoch = told.members_epoch;
  report(now, std::move(told));
}

void FakeNode::stop(const Key& key, bool leaves, Time now) {
  newest_attempt_[key.first] = std::max(newest_attempt_[key.first], key.second.value);
  FakeAttempt& attempt = attempts[key];
  const bool was_stopping = attempt.stopping;
  attempt.stopping = true;
  attempt.leaves = leaves;
  if (processes_stick && attempt.is_alive()) {
    if (!was_stopping) {
      report(now, NodeClean{key.first, key.second, id, {}, {"python (pid 7)"}});
    }
    return;
  }
  const bool had_ranks = attempt.is_alive();
  for (FakeRank& rank : attempt.ranks) {
    if (!rank.alive) continue;
    const bool by_itself = leaves && dice_.chance(70);
    end_rank(key, rank, by_itself ? ExitStatus{} : ExitStatus{0, SIGTERM}, !by_itself, now);
  }
  if (was_stopping && !had_ranks && !dice_.chance(5)) return;
  std::optional<CheckpointRef> newest;
  if (disk_.count(key.first)) newest = disk_[key.first];
  report(now, NodeClean{key.first, key.second, id, newest, {}});
}

}  // namespace muster::test
