// Two states are compared by what `describe` says of them: a fact that it left out could differ
// between a controller and its successor without anybody seeing it.
#include "tests/sim/model/dump.h"

#include <functional>

#include "tests/catch.h"
#include "tests/scheduler/bench.h"

using namespace muster;
using namespace muster::test;

namespace {

// One of everything that a state consists of.
struct StateFacts {
  State state;
  Job& job = state.jobs[JobId{"train"}];
  Attempt& attempt = job.phase.emplace<Active>().attempt;
  AttemptNode& node = attempt.nodes.emplace_back();
  AttemptNode& spare = attempt.spares.emplace_back();
  Rank& rank = attempt.ranks.emplace_back();
  PastAttempt& past = job.past.emplace_back();
  RanThere& ran = past.ran.emplace_back();
  Node& known = state.nodes[NodeId{"h01"}];
  Breaker& breaker = state.breakers["lab"];
  RemedyTaken& taken = state.remedies.emplace_back();
};

// What a fact may be, the first time and the second time.
struct FactValue {
  int number = 1;
  bool is_second = number == 2;
  std::size_t count = is_second ? 2 : 1;
  std::string word = is_second ? "two" : "one";
  Time time = from_ms(number);
  NodeId node{node_name(number)};
  CheckpointRef checkpoint = sealed(number);
};

struct StateFact {
  const char* name;
  std::function<void(StateFacts&, const FactValue&)> make;
};

std::string description_with(const StateFact& fact, int number) {
  StateFacts facts;
  fact.make(facts, FactValue{number});
  return describe(facts.state);
}

// A state that differs in the fact alone is described in other words.
void check_told(const std::vector<StateFact>& facts) {
  for (const StateFact& fact : facts) {
    INFO(fact.name);
    CHECK(description_with(fact, 1) == description_with(fact, 1));
    CHECK(description_with(fact, 1) != description_with(fact, 2));
  }
}

template <class T>
T about(const NodeId& node) {
  T record;
  record.node = node;
  return record;
}

}  // namespace

TEST_CASE("a state's description tells every fact of a job") {
  check_told({
      {"next_order", [](auto& of, auto& v) { of.state.next_order = v.number; }},
      {"order", [](auto& of, auto& v) { of.job.order = v.number; }},
      {"submitted_at", [](auto& of, auto& v) { of.job.submitted_at = v.time; }},
      {"spec", [](auto& of, auto& v) { of.job.spec.command = v.word; }},
      {"target", [](auto& of, auto& v) { of.job.target.name = v.word; }},
      {"user", [](auto& of, auto& v) { of.job.user = v.word; }},
      {"cancel", [](auto& of, auto& v) { of.job.cancel = {{"train"}, Milliseconds{v.number}}; }},
      {"resume_step", [](auto& of, auto& v) { of.job.resume_step = v.number; }},
      {"certified_because", [](auto& of, auto& v) { of.job.certified_because = v.word; }},
      {"next_attempt", [](auto& of, auto& v) { of.job.next_attempt = v.number; }},
      {"waiting_since", [](auto& of, auto& v) { of.job.waiting_since = v.time; }},
      {"waited_before", [](auto& of, auto& v) { of.job.waited_before = Milliseconds{v.number}; }},
      {"measured", [](auto& of, auto& v) { of.job.measured_meanwhile = Milliseconds{v.number}; }},
      {"ran_for", [](auto& of, auto& v) { of.job.ran_for = Milliseconds{v.number}; }},
      {"abandoned", [](auto& of, auto& v) { of.job.abandoned = v.number; }},
      {"abandoned_for", [](auto& of, auto& v) { of.job.abandoned_for = v.word; }},
      {"abandoned_alike", [](auto& of, auto& v) { of.job.abandoned_alike = v.number; }},
      {"asked", [](auto& of, auto& v) { of.job.asked = {v.time, {v.node}}; }},
      {"awaited", [](auto& of, auto& v) { of.job.awaited = {v.node}; }},
      {"avoid", [](auto& of, auto& v) { of.job.avoid = {v.node}; }},
      {"excluded", [](auto& of, auto& v) { of.job.excluded = {v.node}; }},
      {"found", [](auto& of, auto& v) { of.job.found = {v.checkpoint}; }},
      {"newest_checkpoint", [](auto& of, auto& v) { of.job.newest_checkpoint = v.checkpoint; }},
      {"newest_certified", [](auto& of, auto& v) { of.job.newest_certified = v.checkpoint; }},
      {"resumed_from", [](auto& of, auto& v) { of.job.resumed_from = v.checkpoint; }},
      {"fork: epoch", [](auto& of, auto& v) { of.job.forks = {{Epoch{v.number}, 7}}; }},
      {"fork: step", [](auto& of, auto& v) { of.job.forks = {{Epoch{7}, v.number}}; }},
      {"waits for", [](auto& of, auto& v) { of.job.phase = Queued{v.word, {}}; }},
      {"not before", [](auto& of, auto& v) { of.job.phase = Queued{"", v.time}; }},
      {"retry",
       [](StateFacts& of, const FactValue& v) {
         of.job.phase.emplace<Backoff>().retry.rule = v.word;
       }},
      {"phase",
       [](auto& of, auto& v) {
         if (v.is_second) of.job.phase = Queued{};
       }},
  });
}

TEST_CASE("a state's description tells every fact of an attempt that is over") {
  check_told({
      {"id", [](auto& of, auto& v) { of.past.id = AttemptId{v.number}; }},
      {"started_at", [](auto& of, auto& v) { of.past.started_at = v.time; }},
      {"ended_at", [](auto& of, auto& v) { of.past.ended_at = v.time; }},
      {"cause", [](auto& of, auto& v) { of.past.cause.sentence = v.word; }},
      {"newest_checkpoint", [](auto& of, auto& v) { of.past.newest_checkpoint = v.checkpoint; }},
      {"reschedule", [](auto& of, auto& v) { of.past.reschedule = v.is_second; }},
      {"nodes", [](auto& of, auto& v) { of.past.nodes = {v.node}; }},
      {"spares", [](auto& of, auto& v) { of.past.spares = {v.node}; }},
      {"ran: node", [](auto& of, auto& v) { of.ran.node = v.node; }},
      {"ran: left",
       [](auto& of, auto& v) {
         of.ran.left = v.is_second ? StopReason::hung : StopReason::drained;
       }},
      {"ran: until", [](auto& of, auto& v) { of.ran.until = v.time; }},
      {"charged", [](auto& of, auto& v) { of.past.charged = v.is_second; }},
      {"newer_checkpoint", [](auto& of, auto& v) { of.past.newer_checkpoint = v.is_second; }},
      {"saved_last_step", [](auto& of, auto& v) { of.past.saved_last_step = v.is_second; }},
  });
}

TEST_CASE("a state's description tells every fact of an attempt and of its ranks") {
  check_told({
      {"id", [](auto& of, auto& v) { of.attempt.id = AttemptId{v.number}; }},
      {"placed_at", [](auto& of, auto& v) { of.attempt.placed_at = v.time; }},
      {"measured: from", [](auto& of, auto& v) { of.attempt.measured = {{v.time, from_ms(9)}}; }},
      {"measured: to", [](auto& of, auto& v) { of.attempt.measured = {{from_ms(0), v.time}}; }},
      {"number of nodes", [](auto& of, auto& v) { of.attempt.nodes.resize(v.count); }},
      {"number of spares", [](auto& of, auto& v) { of.attempt.spares.resize(v.count); }},
      {"spare", [](auto& of, auto& v) { of.spare.id = v.node; }},
      {"spares_dropped", [](auto& of, auto& v) { of.attempt.spares_dropped = {v.node}; }},
      {"processes", [](auto& of, auto& v) { of.attempt.processes = {v.number}; }},
      {"members: epoch", [](auto& of, auto& v) { of.attempt.members.epoch = v.number; }},
      {"members: ranks", [](auto& of, auto& v) { of.attempt.members.ranks = {RankId{v.number}}; }},
      {"resume_from", [](auto& of, auto& v) { of.attempt.resume_from = v.checkpoint; }},
      {"newest_checkpoint", [](auto& of, auto& v) { of.attempt.newest_checkpoint = v.checkpoint; }},
      {"last_step", [](auto& of, auto& v) { of.attempt.last_step = v.number; }},
      {"stepped_at", [](auto& of, auto& v) { of.attempt.stepped_at = v.time; }},
      {"passed_over",
       [](auto& of, auto& v) { of.attempt.passed_over.emplace_back().reason = v.word; }},
      {"running_since", [](auto& of, auto& v) { of.attempt.running_since = v.time; }},
      {"stopped_at", [](auto& of, auto& v) { of.attempt.stopped_at = v.time; }},
      {"launched", [](auto& of, auto& v) { of.attempt.launched = v.is_second; }},
      {"stall", [](auto& of, auto& v) { of.attempt.stall.emplace().sentence = v.word; }},
      {"faulted", [](auto& of, auto& v) { of.attempt.faulted = {about<NodeFaulted>(v.node)}; }},
      {"rank: id", [](auto& of, auto& v) { of.rank.id = RankId{v.number}; }},
      {"rank: node_index", [](auto& of, auto& v) { of.rank.node_index = v.number; }},
      {"rank: local_rank", [](auto& of, auto& v) { of.rank.local_rank = v.number; }},
      {"rank: state",
       [](auto& of, auto& v) {
         if (v.is_second) of.rank.state = RankRunning{};
       }},
      {"rank: running since", [](auto& of, auto& v) { of.rank.state = RankRunning{v.time}; }},
      {"rank: exit",
       [](StateFacts& of, const FactValue& v) {
         of.rank.state.emplace<RankDone>().exit.status.code = v.number;
       }},
      {"rank: gone", [](auto& of, auto& v) { of.rank.state = RankGone{v.time}; }},
  });
}

TEST_CASE("a state's description tells in which phase an attempt is, and since when and why") {
  check_told({
      {"phase",
       [](auto& of, auto& v) {
         if (v.is_second) of.attempt.phase = Running{};
         else of.attempt.phase = Starting{};
       }},
      {"staging", [](auto& of, auto& v) { of.attempt.phase = Staging{v.time}; }},
      {"reserving", [](auto& of, auto& v) { of.attempt.phase = Reserving{v.time}; }},
      {"starting", [](auto& of, auto& v) { of.attempt.phase = Starting{v.time}; }},
      {"running", [](auto& of, auto& v) { of.attempt.phase = Running{v.time}; }},
      {"stopping", [](auto& of, auto& v) { of.attempt.phase = Stopping{v.time, {}}; }},
      {"stopping: why",
       [](StateFacts& of, const FactValue& v) {
         of.attempt.phase.emplace<Stopping>().why.sentence = v.word;
       }},
      {"collecting", [](auto& of, auto& v) { of.attempt.phase = Collecting{{}, v.time}; }},
      {"collecting: why",
       [](StateFacts& of, const FactValue& v) {
         of.attempt.phase.emplace<Collecting>().why.emplace().sentence = v.word;
       }},
  });
}

TEST_CASE("a state's description tells every fact of a node's part in an attempt") {
  check_told({
      {"id", [](auto& of, auto& v) { of.node.id = v.node; }},
      {"checked", [](auto& of, auto& v) { of.node.checked = about<NodeChecked>(v.node); }},
      {"staging_seen", [](auto& of, auto& v) { of.node.staging_seen = v.time; }},
      {"staged", [](auto& of, auto& v) { of.node.staged = about<NodeStaged>(v.node); }},
      {"ports", [](auto& of, auto& v) { of.node.ports = about<PortsReserved>(v.node); }},
      {"started", [](auto& of, auto& v) { of.node.started = about<NodeStarted>(v.node); }},
      {"clean", [](auto& of, auto& v) { of.node.clean = about<NodeClean>(v.node); }},
      {"fenced", [](auto& of, auto& v) { of.node.fenced = about<NodeFenced>(v.node); }},
      {"collected", [](auto& of, auto& v) { of.node.collected = about<OutputsCollected>(v.node); }},
      {"collect_failures", [](auto& of, auto& v) { of.node.collect_failures = v.number; }},
      {"collect_failed_at", [](auto& of, auto& v) { of.node.collect_failed_at = v.time; }},
      {"collection_seen", [](auto& of, auto& v) { of.node.collection_seen = v.time; }},
      {"agent_id", [](auto& of, auto& v) { of.node.agent_id = v.word; }},
      {"boot_id", [](auto& of, auto& v) { of.node.boot_id = v.word; }},
      {"agent_changed", [](auto& of, auto& v) { of.node.agent_changed = v.is_second; }},
      {"boot_changed", [](auto& of, auto& v) { of.node.boot_changed = v.is_second; }},
      {"link_lost_at", [](auto& of, auto& v) { of.node.link_lost_at = v.time; }},
      {"silent_since", [](auto& of, auto& v) { of.node.silent_since = {v.number, 9, "boot"}; }},
      {"joined_at", [](auto& of, auto& v) { of.node.joined_at = v.time; }},
      {"unkillable_since", [](auto& of, auto& v) { of.node.unkillable_since = v.time; }},
      {"taken_late", [](auto& of, auto& v) { of.node.taken_late = v.is_second; }},
      {"asked_at", [](auto& of, auto& v) { of.node.asked_at = v.time; }},
      {"join_begun", [](auto& of, auto& v) { of.node.join_begun = v.time; }},
      {"ready", [](auto& of, auto& v) { of.node.ready = v.is_second; }},
      {"ready_at", [](auto& of, auto& v) { of.node.ready_at = v.time; }},
      {"member", [](auto& of, auto& v) { of.node.member = v.is_second; }},
      {"member_since", [](auto& of, auto& v) { of.node.member_since = v.number; }},
      {"members_told", [](auto& of, auto& v) { of.node.members_told = v.number; }},
      {"members_error", [](auto& of, auto& v) { of.node.members_error = v.word; }},
      {"leaves", [](auto& of, auto& v) { of.node.leaves = about<NodeLeaves>(v.node); }},
      {"left_at", [](auto& of, auto& v) { of.node.left_at = v.time; }},
      {"released", [](auto& of, auto& v) { of.node.released = v.is_second; }},
  });
}

TEST_CASE("a state's description tells every fact of a node, whoever uses it") {
  check_told({
      {"link",
       [](auto& of, auto& v) {
         if (v.is_second) of.known.link = Unlinked{};
       }},
      {"linked: up", [](auto& of, auto& v) { of.known.link = Linked{about<LinkUp>(v.node), {}}; }},
      {"linked: since", [](auto& of, auto& v) { of.known.link = Linked{{}, v.time}; }},
      {"unlinked: failure",
       [](StateFacts& of, const FactValue& v) {
         of.known.link.emplace<Unlinked>().failure.message = v.word;
       }},
      {"unlinked: since",
       [](StateFacts& of, const FactValue& v) {
         of.known.link.emplace<Unlinked>().since = v.time;
       }},
      {"unlinked: last",
       [](StateFacts& of, const FactValue& v) {
         of.known.link.emplace<Unlinked>().last = about<LinkUp>(v.node);
       }},
      {"unlinked: failed_at",
       [](StateFacts& of, const FactValue& v) {
         of.known.link.emplace<Unlinked>().failed_at = v.time;
       }},
      {"unlinked: sought_since",
       [](StateFacts& of, const FactValue& v) {
         of.known.link.emplace<Unlinked>().sought_since = v.time;
       }},
      {"drained", [](auto& of, auto& v) { of.known.drained = v.is_second; }},
      {"drain_reason",
       [](auto& of, auto& v) {
         of.known.drained = true;
         of.known.drain_reason = v.word;
       }},
      {"move_at", [](auto& of, auto& v) { of.known.move_at = v.time; }},
      {"notice: since", [](auto& of, auto& v) { of.known.notice.emplace().since = v.time; }},
      {"notice: leaves_at",
       [](auto& of, auto& v) { of.known.notice.emplace().leaves_at = v.time; }},
      {"notice: source", [](auto& of, auto& v) { of.known.notice.emplace().source = v.word; }},
      {"notice: boot_id", [](auto& of, auto& v) { of.known.notice.emplace().boot_id = v.word; }},
      {"notice: agent_id", [](auto& of, auto& v) { of.known.notice.emplace().agent_id = v.word; }},
      {"evidence", [](auto& of, auto& v) { of.known.evidence = {{{"train"}, v.time, "broke"}}; }},
      {"set_aside: since",
       [](auto& of, auto& v) { of.known.set_aside = {v.time, from_ms(9), ""}; }},
      {"set_aside: until",
       [](auto& of, auto& v) { of.known.set_aside = {from_ms(0), v.time, ""}; }},
      {"set_aside: reason", [](auto& of, auto& v) { of.known.set_aside = {{}, {}, v.word}; }},
      {"sound_since", [](auto& of, auto& v) { of.known.sound_since = v.time; }},
      {"faults", [](auto& of, auto& v) { of.known.faults.emplace_back().what = v.word; }},
      {"faults_told", [](auto& of, auto& v) { of.known.faults_told["id"] = v.time; }},
      {"faults_heard", [](auto& of, auto& v) { of.known.faults_heard = {v.word}; }},
      {"faults_settled", [](auto& of, auto& v) { of.known.faults_settled = v.is_second; }},
      {"fault_drain: since",
       [](auto& of, auto& v) { of.known.fault_drain.emplace().since = v.time; }},
      {"fault_drain: fault",
       [](auto& of, auto& v) { of.known.fault_drain.emplace().fault.what = v.word; }},
      {"fault_drain: reason",
       [](auto& of, auto& v) { of.known.fault_drain.emplace().reason = v.word; }},
      {"fault_drain: rebooted",
       [](auto& of, auto& v) { of.known.fault_drain.emplace().rebooted = v.is_second; }},
      {"remedy: what", [](auto& of, auto& v) { of.known.remedy.emplace().what.id = v.word; }},
      {"remedy: since", [](auto& of, auto& v) { of.known.remedy.emplace().since = v.time; }},
      {"remedy: ended",
       [](auto& of, auto& v) { of.known.remedy.emplace().ended = about<RemedyEnded>(v.node); }},
      {"remedies", [](auto& of, auto& v) { of.known.remedies.emplace_back().fault = v.word; }},
      {"is_away", [](auto& of, auto& v) { of.known.is_away = v.is_second; }},
      {"owner", [](auto& of, auto& v) { of.known.owner = JobId{v.word}; }},
      {"unclean: job", [](auto& of, auto& v) { of.known.unclean.emplace().job = JobId{v.word}; }},
      {"unclean: attempt",
       [](auto& of, auto& v) { of.known.unclean.emplace().attempt = AttemptId{v.number}; }},
      {"unclean: why", [](auto& of, auto& v) { of.known.unclean.emplace().why.sentence = v.word; }},
  });
}

TEST_CASE("a state's description tells every fact of breakers, and of remedies that were taken") {
  check_told({
      {"breaker: name", [](auto& of, auto& v) { of.state.breakers[v.word]; }},
      {"breaker: open_since", [](auto& of, auto& v) { of.breaker.open_since = v.time; }},
      {"breaker: reason", [](auto& of, auto& v) { of.breaker.reason = v.word; }},
      {"breaker: is_check", [](auto& of, auto& v) { of.breaker.is_check = v.is_second; }},
      {"breaker: reset_at", [](auto& of, auto& v) { of.breaker.reset_at = v.time; }},
      {"taken: at", [](auto& of, auto& v) { of.taken.at = v.time; }},
      {"taken: asked_at", [](auto& of, auto& v) { of.taken.asked_at = v.time; }},
      {"taken: node", [](auto& of, auto& v) { of.taken.node = v.node; }},
      {"taken: serial", [](auto& of, auto& v) { of.taken.serial = v.word; }},
      {"taken: device", [](auto& of, auto& v) { of.taken.device = v.word; }},
      {"taken: check", [](auto& of, auto& v) { of.taken.check = v.word; }},
      {"taken: code", [](auto& of, auto& v) { of.taken.code = v.word; }},
      {"taken: remedy",
       [](auto& of, auto& v) { of.taken.remedy = v.is_second ? Remedy::reset : Remedy::rma; }},
      {"taken: job", [](auto& of, auto& v) { of.taken.job = v.word; }},
  });
}

TEST_CASE("a record's description tells its kind, and every field by name and value") {
  const Decision stop = StopBegun{{"train"}, {2}, StopReason::hung, "it hangs", Seconds{3}};
  const std::string text = describe(stop);
  CHECK(text.starts_with("stop_begun {job='train' attempt=2 "));
  CHECK_THAT(text, ContainsSubstring("='it hangs'"));
  CHECK_THAT(text, ContainsSubstring("=3000 "));
  CHECK(describe(Record{from_ms(1), stop}) == text);
  const Observation up = about<LinkUp>(NodeId{"h01"});
  CHECK_THAT(describe(Record{from_ms(1), up}), ContainsSubstring("link_up {node='h01' "));
}
