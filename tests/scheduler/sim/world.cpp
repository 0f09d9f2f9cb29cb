#include "tests/scheduler/sim/world.h"

#include "scheduler/state/lookup.h"
#include "tests/scheduler/builders.h"
#include "tests/sim/model/dump.h"
#include "tests/sim/model/replay.h"

namespace muster::test {

namespace {

constexpr int hosts = 4;
constexpr int jobs_most = 4;
constexpr int decisions_most = 1000;  // in one go: more is a loop
const Milliseconds lease{60'000};

}  // namespace

World::World(std::uint64_t seed, WorldLimits limits)
    : dice_(seed), limits_(limits), jobs_most_(1 + dice_.upto(jobs_most)) {
  for (int i = 1; i <= hosts; ++i) nodes_.emplace_back(NodeId{node_name(i)}, dice_, disk_);
}

void World::run() {
  for (int i = 0; i < limits_.fault_ticks; ++i) {
    submit_some(5);
    if (dice_.chance(15)) break_something();
    tick(dice_.time(50, 5000), true);
  }
  heal();
  submit_some(100);
  const Time end = now_ + limits_.calm_limit;
  while (!state_.jobs.empty() && now_ < end) tick(dice_.time(500, 5000), false);
  for (const auto& [id, job] : state_.jobs) problems_.push_back("I7: " + id.value + " never ends");
  tick(lease + Seconds{10}, false);
  check_all_quiet();
}

std::vector<std::string> World::problems() const {
  std::vector<std::string> all = problems_;
  const auto& audited = audit_.violations();
  all.insert(all.end(), audited.begin(), audited.end());
  const Replay again = replay(journal_);
  if (describe(again.state) != describe(state_)) all.push_back("I6: replay gives another state");
  for (const Disagreement& each : again.disagreements) {
    all.push_back("I6: record " + std::to_string(each.index) + " is " + each.recorded +
                  " but replay decides " + each.decided);
  }
  return all;
}

// ---- what happens -----------------------------------------------------------------------------

void World::tick(Milliseconds passed, bool faults) {
  now_ += passed;
  faults_ = faults;
  check_wake();
  settle(faults);
  for (FakeNode& each : nodes_) {
    if (is_connected(each)) each.last_heard = now_;
    each.live(now_, lease);
  }
  update_links();
  deliver_work(faults);
  deliver_reports();
}

void World::submit_some(int percent) {
  if (jobs_ >= jobs_most_ || !dice_.chance(percent)) return;
  JobBuilder job = a_job("job" + std::to_string(jobs_++));
  job.on_nodes(1 + dice_.upto(hosts)).of_cluster(hosts).priority(dice_.upto(3));
  job.restarts(dice_.upto(4)).reschedules(dice_.upto(6)).no_progress_cycles(1 + dice_.upto(5));
  job.nodes_wait(30 + dice_.upto(600)).ranks_per_node(1 + dice_.upto(2));
  if (dice_.chance(50)) job.elastic(1 + dice_.upto(2), 2 + dice_.upto(hosts - 1));
  if (dice_.chance(10)) job.timeout(20 + dice_.upto(60));
  if (dice_.chance(20))
    job.without_distribution();
  else if (dice_.chance(20))
    job.ranks_by_gpus();
  if (dice_.chance(50)) job.spares(dice_.upto(3));
  if (dice_.chance(30)) job.preemptible();
  observe(job);
}

void World::break_something() {
  const int what = dice_.upto(100);
  if (what < 5) return restart_controller();
  if (what < 10 && jobs_ > 0) {
    const std::optional<Milliseconds> grace = dice_.time(0, 60'000);
    return observe(CancelRequested{JobId{"job" + std::to_string(dice_.upto(jobs_))},
                                   dice_.chance(50) ? grace : std::nullopt});
  }
  break_node(nodes_[static_cast<std::size_t>(dice_.upto(hosts))]);
}

// Hosts say that they go, go or stay, and come back or do not.
void World::give_notice(const FakeNode& node) {
  const auto leaves_in = dice_.chance(70) ? std::optional(dice_.time(0, 120'000)) : std::nullopt;
  observe(NodeNotice{node.id, leaves_in, "/run/leave", dice_.chance(40),
                     "boot" + std::to_string(node.boot), "agent" + std::to_string(node.agent)});
}

void World::break_node(FakeNode& victim) {
  switch (dice_.upto(11)) {
    case 0:
      victim.kill_agent();
      break;
    case 1:
      victim.reboot();
      break;
    case 2:
      victim.host_up = !victim.host_up;
      break;
    case 3:
    case 4:
      victim.reachable = !victim.reachable;
      break;
    case 5:
      victim.healthy = !victim.healthy;
      break;
    case 6:
      victim.kill_ranks(now_);
      break;
    case 7:
      victim.refuses_key = !victim.refuses_key;
      break;
    case 8:
      observe(NodeDrainSet{victim.id, dice_.chance(50), "fan", move_after()});
      break;
    case 9:
      victim.stages_badly = dice_.chance(30);
      victim.stages_never = dice_.chance(20);
      victim.processes_stick = dice_.chance(30);
      break;
    case 10:
      give_notice(victim);
      break;
  }
  if (!victim.host_up) victim.kill_agent();
}

std::optional<Milliseconds> World::move_after() {
  if (dice_.chance(50)) return std::nullopt;
  return dice_.time(0, 60'000);
}

void World::heal() {
  for (FakeNode& each : nodes_) {
    each.host_up = each.reachable = each.healthy = true;
    each.refuses_key = each.stages_badly = each.processes_stick = false;
    each.stages_never = false;
    observe(NodeDrainSet{each.id, false, "", {}});
    observe(NodeNotice{each.id, {}, "/run/leave", true, ""});
  }
  observe(BreakerReset{"lab"});
}

// All that a new controller knows is the journal; its links are gone.
void World::restart_controller() {
  State fresh;
  for (const Record& record : journal_) apply(fresh, record);
  if (describe(fresh) != describe(state_)) problems_.push_back("I6: state is not the journal's");
  state_ = std::move(fresh);
  for (FakeNode& each : nodes_) {
    if (linked_agent(state_, each.id)) {
      observe(LinkDown{each.id, {LinkFailureKind::lost, "the controller restarted"}});
    }
  }
  settle(false);
}

// ---- links ------------------------------------------------------------------------------------

bool World::is_connected(const FakeNode& each) const {
  const LinkUp* up = linked_agent(state_, each.id);
  return up && each.host_up && each.reachable && each.agent != 0 &&
         up->agent_id == "agent" + std::to_string(each.agent);
}

void World::update_links() {
  for (FakeNode& each : nodes_) update_link(each);
}

void World::update_link(FakeNode& each) {
  const bool believed = linked_agent(state_, each.id) != nullptr;
  if (believed && !is_connected(each) && dice_.chance(50)) {
    return observe(LinkDown{each.id, {LinkFailureKind::lost, "connection closed"}});
  }
  const bool wanted = nodes_to_connect(state_).count(each.id) > 0;
  if (believed || !wanted || !dice_.chance(60)) return;
  if (!each.host_up || !each.reachable) {
    return observe(LinkDown{each.id, {LinkFailureKind::unreachable, "no route to host"}});
  }
  if (each.refuses_key) {
    return observe(LinkDown{each.id, {LinkFailureKind::refused_key, "permission denied"}});
  }
  if (each.agent == 0) each.start_agent(++agents_, now_);
  each.last_heard = now_;
  LinkUp up{each.id, "boot" + std::to_string(each.boot), "agent" + std::to_string(each.agent),
            each.id.value, "10.0.0.1"};
  up.gpus = (static_cast<int>(each.id.value.back()) + each.boot) % 4;  // a reboot changes it
  observe(std::move(up));
}

// ---- work and reports -------------------------------------------------------------------------

void World::deliver_work(bool faults) {
  for (const NodeWork& work : pending_work(state_)) {
    FakeNode& worker = node(work.node);
    if (!is_connected(worker) || !dice_.chance(70)) continue;
    if (std::holds_alternative<StartWork>(work.work)) check_start(work);
    const Job* job = find_job(state_, work.job);
    static const Job gone;  // a node may still be cleaning up for a job that has ended
    worker.handle(work, job ? *job : gone, now_, faults);
  }
}

void World::deliver_reports() {
  for (FakeNode& each : nodes_) {
    if (!is_connected(each)) continue;
    for (const Observation& what : each.take_reports(now_)) observe(what);
  }
}

void World::check_start(const NodeWork& work) {
  for (const FakeNode& each : nodes_) {
    for (const auto& [key, attempt] : each.attempts) {
      if (!attempt.is_alive()) continue;
      // Stuck processes hang in the kernel and run nothing.
      if (each.processes_stick && attempt.stopping) continue;
      if (key.first == work.job && key.second < work.attempt) {
        problems_.push_back("I2: " + work.job.value + " starts while an older attempt runs on " +
                            each.id.value);
      }
      if (key.first == work.job && key.second == work.attempt && each.id != work.node) {
        check_ranks_apart(work, each, attempt);
      }
      if (key.first != work.job && each.id == work.node) {
        problems_.push_back("I1: " + key.first.value + " still runs on " + each.id.value);
      }
    }
  }
}

// A rank's number is one process's, for its whole life.
void World::check_ranks_apart(const NodeWork& work, const FakeNode& other,
                              const FakeAttempt& there) {
  const Attempt* attempt = find_attempt(state_, work.job, work.attempt);
  if (!attempt) return;
  for (const Rank& rank : ranks_on(*attempt, static_cast<std::size_t>(work.node_index))) {
    for (const FakeRank& running : there.ranks) {
      if (running.id == rank.id) {
        problems_.push_back("I2: rank " + std::to_string(rank.id.value) + " of " + work.job.value +
                            " starts and is on " + other.id.value);
      }
    }
  }
}

void World::check_all_quiet() {
  for (FakeNode& each : nodes_) {
    each.live(now_, lease);
    for (const auto& [key, attempt] : each.attempts) {
      if (attempt.is_alive() && !find_job(state_, key.first)) {
        problems_.push_back("I8: " + key.first.value + " has ended and runs on " + each.id.value);
      }
    }
  }
}

// ---- the controller's loop --------------------------------------------------------------------

void World::observe(const Observation& what) {
  write({now_, what});
  settle(faults_);
}

// A crash between two records of one decision is the rarest of the faults, and the easiest to
// forget.
void World::settle(bool may_crash) {
  int made = 0;
  for (auto decisions = decide(state_, now_); !decisions.empty();
       decisions = decide(state_, now_)) {
    for (Decision& decision : decisions) {
      write({now_, std::move(decision)});
      if (may_crash && dice_.upto(1000) == 0) return restart_controller();
    }
    made += static_cast<int>(decisions.size());
    if (made > decisions_most) {
      problems_.push_back("scheduler did not converge");
      return;
    }
  }
}

void World::write(const Record& record) {
  audit_.see(state_, record);
  journal_.push_back(record);
  apply(state_, record);
  for (const std::string& violation : violations(state_)) problems_.push_back(violation);
}

// Nothing may become due before the time that `next_wake` named.
void World::check_wake() {
  const Time before = now_ - Milliseconds{1};
  const auto wake = next_wake(state_, journal_.empty() ? before : journal_.back().at);
  if ((!wake || *wake > now_) && !decide(state_, now_).empty()) {
    problems_.push_back("next_wake missed a decision at " + std::to_string(to_ms(now_)));
  }
}

FakeNode& World::node(const NodeId& id) {
  for (FakeNode& each : nodes_) {
    if (each.id == id) return each;
  }
  return nodes_.front();
}

}  // namespace muster::test
