// Two states are compared by what `describe` says of them. That it names every member of a part of
// State is seen by the compiler; here, that it tells one value from another.
#include "tests/sim/model/dump.h"

#include <functional>

#include "tests/catch.h"

using namespace muster;

namespace {

const NodeId some_node{"h01"};
const JobId some_job{"train"};

Job& job_of(State& state) {
  return state.jobs[some_job];
}
Attempt& attempt_of(State& state) {
  Job& job = job_of(state);
  if (!std::holds_alternative<Active>(job.phase)) job.phase.emplace<Active>();
  return std::get<Active>(job.phase).attempt;
}

}  // namespace

TEST_CASE("states that differ in one fact are described in other words") {
  const std::vector<std::function<void(State&)>> changes = {
      [](State& of) { of.next_order = 7; },
      [](State& of) { job_of(of).user = "ada"; },
      [](State& of) { job_of(of).spec.command = "python train.py"; },
      [](State& of) { job_of(of).submitted_at = from_ms(7); },
      [](State& of) { job_of(of).ran_for = Milliseconds{7}; },
      [](State& of) { job_of(of).resume_step = 0; },
      [](State& of) { job_of(of).cancel.emplace(); },
      [](State& of) { job_of(of).asked.emplace(); },
      [](State& of) { job_of(of).excluded = {some_node}; },
      [](State& of) { job_of(of).awaited = {some_node}; },
      [](State& of) {
        job_of(of).forks = {{Epoch{1}, 7}};
      },
      [](State& of) { job_of(of).past.emplace_back(); },
      [](State& of) { job_of(of).past.emplace_back().charged = false; },
      [](State& of) { job_of(of).past.emplace_back().ran.emplace_back().left = StopReason::hung; },
      [](State& of) {
        job_of(of).phase = Queued{"behind another", {}};
      },
      [](State& of) { job_of(of).phase = Backoff{}; },
      [](State& of) { attempt_of(of).phase = Running{}; },
      [](State& of) { attempt_of(of).phase = Running{from_ms(7)}; },
      [](State& of) { attempt_of(of).phase.emplace<Stopping>().why.sentence = "it hangs"; },
      [](State& of) { attempt_of(of).phase.emplace<Collecting>().why.emplace(); },
      [](State& of) { attempt_of(of).nodes.emplace_back(); },
      [](State& of) { attempt_of(of).nodes.emplace_back().stopped = ProvenClean{}; },
      [](State& of) { attempt_of(of).spares.emplace_back(); },
      [](State& of) { attempt_of(of).spares.emplace_back().join.emplace(); },
      [](State& of) { attempt_of(of).ranks = {{}}; },
      [](State& of) {
        attempt_of(of).ranks = {{{}, 0, 0, RankGone{from_ms(7)}}};
      },
      [](State& of) { attempt_of(of).members.ranks = {RankId{7}}; },
      [](State& of) { of.nodes[some_node]; },
      [](State& of) { of.nodes[NodeId{"h02"}]; },
      [](State& of) { of.nodes[some_node].link = Linked{}; },
      [](State& of) { of.nodes[some_node].link.emplace<Unlinked>().failure.message = "no route"; },
      [](State& of) { of.nodes[some_node].faults.emplace_back(); },
      [](State& of) { of.nodes[some_node].faults_told["fault"]; },
      [](State& of) { of.nodes[some_node].faults_told["fault"] = from_ms(7); },
      [](State& of) { of.nodes[some_node].owner = some_job; },
      [](State& of) { of.breakers["lab"]; },
      [](State& of) { of.breakers["lab"].is_check = true; },
      [](State& of) { of.remedies.emplace_back(); },
      [](State& of) { of.remedies.emplace_back().remedy = Remedy::rma; },
  };
  std::map<std::string, std::size_t> seen;
  for (std::size_t i = 0; i < changes.size(); ++i) {
    State state;
    changes[i](state);
    const auto [before, is_new] = seen.emplace(describe(state), i);
    INFO("changes " << before->second << " and " << i);
    CHECK(is_new);
    CHECK(describe(state) == before->first);
  }
}

TEST_CASE("a fact of a state is told with the way to it") {
  State state;
  state.nodes[some_node].drain_reason = "fan";
  CHECK_THAT(describe(state), ContainsSubstring("state.nodes.'h01'.drain_reason 'fan'\n"));
}

TEST_CASE("a record's description tells its kind, and every field by name and value") {
  const Decision stop = StopBegun{some_job, {2}, StopReason::hung, "it hangs", Seconds{3}};
  const std::string text = describe(stop);
  CHECK(text.starts_with("stop_begun {job='train' attempt=2 "));
  CHECK_THAT(text, ContainsSubstring("='it hangs'"));
  CHECK_THAT(text, ContainsSubstring("=3000 "));
  CHECK(describe(Record{from_ms(1), stop}) == text);
  LinkUp up;
  up.node = some_node;
  CHECK_THAT(describe(Record{from_ms(1), Observation{up}}),
             ContainsSubstring("link_up {node='h01' "));
}
