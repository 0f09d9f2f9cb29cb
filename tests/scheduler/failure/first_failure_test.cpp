#include "scheduler/failure/first_failure.h"

#include <algorithm>
#include <csignal>

#include "scheduler/explain/explain.h"
#include "tests/catch.h"
#include "tests/scheduler/bench.h"

using namespace muster;
using namespace muster::test;

namespace {

// A rank on a node of its own that failed between two times.
Failure rank_failed(int rank, Standing standing, std::int64_t earliest_us, std::int64_t latest_us) {
  Failure failure;
  failure.rank = RankId{rank};
  failure.node = NodeId{node_name(rank + 1)};
  failure.when = ClockInterval{earliest_us, latest_us, "boot"};
  failure.at_ms = latest_us / 1000;
  failure.how = "exited with code 1";
  failure.judgement.standing = standing;
  return failure;
}

Failure node_lost(int node, std::int64_t earliest_us, std::int64_t latest_us) {
  Failure failure = rank_failed(node - 1, Standing::proven, earliest_us, latest_us);
  failure.rank.reset();
  failure.how = "was lost";
  return failure;
}

Failure said_why(Failure failure) {
  failure.judgement.standing = Standing::proven;
  failure.judgement.exits_late = true;
  return failure;
}

std::vector<std::int64_t> ranks(const Attribution& attribution) {
  std::vector<std::int64_t> all;
  for (const Failure& failure : attribution.first) {
    all.push_back(failure.rank ? failure.rank->value : -1);
  }
  return all;
}

constexpr auto consequence = Standing::consequence;
constexpr auto unclear = Standing::unclear;
constexpr auto silent = Standing::silent;
constexpr auto proven = Standing::proven;

}  // namespace

TEST_CASE("the earliest is named with its margin when it overlaps no other") {
  const auto found =
      attribute({rank_failed(9, silent, 300'000, 300'800), rank_failed(3, proven, 100'000, 100'400),
                 rank_failed(5, consequence, 312'000, 312'400)});
  REQUIRE(found.is_named);
  CHECK(ranks(found) == std::vector<std::int64_t>{3});
  CHECK(attribution_sentence(found) ==
        "rank 3 on h04 exited with code 1 200 ms (±0.6 ms) before any other; 2 failed afterwards");
}

TEST_CASE("of those that overlap all are listed and none is named") {
  const auto found = attribute({rank_failed(9, proven, 100, 300), rank_failed(3, proven, 200, 900),
                                rank_failed(5, proven, 301, 400)});
  CHECK_FALSE(found.is_named);
  CHECK(ranks(found) == std::vector<std::int64_t>{9, 3});
  CHECK(attribution_sentence(found) ==
        "first failure unknown, one of: rank 9 on h10 and rank 3 on h04: rank 9 exited with code "
        "1; rank 3 "
        "exited with code 1; 1 failed afterwards");
  const FirstFailure form = journal_form(found);
  CHECK_FALSE(form.rank);
  CHECK_FALSE(form.node);
  CHECK(form.candidates.size() == 2);
  CHECK(form.followed == 1);
}

TEST_CASE("intervals that touch overlap") {
  CHECK_FALSE(attribute({rank_failed(1, proven, 0, 5), rank_failed(2, proven, 5, 9)}).is_named);
  CHECK(attribute({rank_failed(1, proven, 0, 4), rank_failed(2, proven, 5, 9)}).is_named);
}

TEST_CASE("an error of a peer is not named, though it overlaps; then the evidence decides") {
  const auto found =
      attribute({rank_failed(0, consequence, 90, 300), rank_failed(3, proven, 100, 200)});
  REQUIRE(found.is_named);
  CHECK(ranks(found) == std::vector<std::int64_t>{3});
  CHECK_FALSE(found.margin);
  CHECK(attribution_sentence(found) == "rank 3 on h04 exited with code 1; 1 failed afterwards");
}

TEST_CASE("a sudden end cannot be the cause of an error of a peer that came before it") {
  const auto sudden =
      attribute({rank_failed(0, consequence, 10, 20), rank_failed(3, proven, 100, 200)});
  CHECK_FALSE(sudden.is_named);
  CHECK(sudden.first.size() == 2);
  const auto talkative =
      attribute({rank_failed(0, consequence, 10, 20), said_why(rank_failed(3, proven, 100, 200))});
  CHECK(talkative.is_named);
}

TEST_CASE("a silent end before one with words of its own may be its consequence") {
  const auto near =
      attribute({rank_failed(0, silent, 10, 20), said_why(rank_failed(3, proven, 100, 200))});
  CHECK_FALSE(near.is_named);
  const auto far = attribute(
      {rank_failed(0, silent, 10, 20), said_why(rank_failed(3, proven, 40'000'000, 40'000'010))});
  CHECK(far.is_named);
}

TEST_CASE("whoever may be cause or consequence is never named and hides those behind it") {
  CHECK_FALSE(
      attribute({rank_failed(0, unclear, 10, 20), rank_failed(3, proven, 100, 200)}).is_named);
  CHECK(attribute({rank_failed(0, unclear, 210, 220), rank_failed(3, proven, 100, 200)}).is_named);
  CHECK(attribution_sentence(attribute({rank_failed(0, unclear, 10, 20)})) ==
        "first failure unknown; last known: rank 0 on h01: rank 0 exited with code 1");
}

TEST_CASE("nobody is named when there are errors of peers only") {
  const auto found =
      attribute({rank_failed(0, consequence, 10, 20), rank_failed(3, consequence, 100, 200)});
  CHECK_FALSE(found.is_named);
  CHECK(found.followed == 1);
}

TEST_CASE("a rank without a known time hides every other") {
  Failure timeless = rank_failed(7, silent, 0, 0);
  timeless.when.reset();
  CHECK_FALSE(attribute({timeless, rank_failed(3, proven, 100, 200)}).is_named);
  CHECK(attribute({timeless}).is_named);
}

TEST_CASE("intervals of two clocks are not compared") {
  Failure other = rank_failed(7, proven, 900, 901);
  other.when->clock = "another boot";
  CHECK_FALSE(attribute({other, rank_failed(3, proven, 100, 200)}).is_named);
}

TEST_CASE("a lost node is named before the silent ends that it overlaps, not before proven ones") {
  CHECK(ranks(attribute({node_lost(2, 0, 10'000), rank_failed(3, silent, 500, 600)})) ==
        std::vector<std::int64_t>{-1});
  CHECK_FALSE(attribute({node_lost(2, 0, 10'000), rank_failed(3, proven, 500, 600)}).is_named);
  CHECK(ranks(attribute({node_lost(2, 700, 10'000), rank_failed(3, silent, 500, 600)})) ==
        std::vector<std::int64_t>{3});
}

TEST_CASE("two nodes that were lost at once is unknown apart") {
  CHECK_FALSE(attribute({node_lost(2, 0, 900), node_lost(5, 10, 800)}).is_named);
}

TEST_CASE("nothing failed: nobody is named") {
  CHECK(attribute({}).first.empty());
  CHECK(attribution_sentence(attribute({})).empty());
}

// ---- through records --------------------------------------------------------------------------

TEST_CASE("a node that was lost is told from when it was last heard") {
  Bench bench(a_job().on_nodes(3));
  bench.pass(Seconds{1});
  LinkDown down{NodeId{"h02"}, {LinkFailureKind::lost, "silent"}, around(bench.now)};
  bench.observe(down);
  bench.pass(Seconds{1});
  bench.exit_and_obey(0, {1, 0});
  bench.obey_after(Seconds{600});
  REQUIRE(bench.last<AttemptEnded>());
  const AttemptCause& cause = bench.last<AttemptEnded>()->cause;
  CHECK(cause.failure_class == FailureClass::infra);
  CHECK(cause.first_node == NodeId{"h02"});
  CHECK_FALSE(cause.first_rank);
  CHECK(cause.sentence == "h02 was lost 1000 ms (±4.0 ms) before any other; 1 failed afterwards");
}

TEST_CASE("a node that came back without its ranks is told by what became of it") {
  Bench bench(a_job().on_nodes(2));
  const int boot = GENERATE(1, 2);
  bench.unlink(2);
  bench.link(2, 2, boot);
  bench.obey();
  CHECK(bench.the<AttemptEnded>().cause.sentence ==
        (boot == 2 ? "h02 rebooted" : "h02 lost its ranks: its agent restarted"));
}

TEST_CASE("a link that came back with the same agent was no loss") {
  Bench bench(a_job().on_nodes(2));
  LinkDown down{NodeId{"h02"}, {LinkFailureKind::lost, "silent"}, around(bench.now)};
  bench.observe(down);
  CHECK(bench.attempt().nodes.at(1).agent->lost->silent_since);
  bench.link(2);
  CHECK_FALSE(bench.attempt().nodes.at(1).agent->lost);
}

TEST_CASE("a rank that failed before its stop is attributed though it is reported after") {
  Bench bench(a_job().on_nodes(4));
  bench.exit_rank(3, {1, 0}, Milliseconds{10});
  CHECK(bench.last<StopBegun>()->sentence == "rank 3 on h04 exited with code 1");
  bench.exit_and_obey(1, {0, SIGSEGV}, Milliseconds{300});
  const AttemptCause& cause = bench.last<AttemptEnded>()->cause;
  CHECK(cause.first_rank == RankId{1});
  REQUIRE(cause.first_failure);
  CHECK(cause.first_failure->rank == RankId{1});
  CHECK(cause.first_failure->margin_us == 290'000);
  CHECK(cause.first_failure->uncertainty_us == 4'000);
  CHECK(cause.first_failure->followed == 1);
  CHECK(cause.first_failure->evidence.back() == "signal 11 (SIGSEGV)");
  CHECK_THAT(bench.story(), ContainsSubstring("  evidence: signal 11 (SIGSEGV)\n"));
}

TEST_CASE("a rank that had said what went wrong and was stopped on its way out is the first") {
  Bench bench(a_job().on_nodes(3));
  RankExited left;
  left.job = JobId{"train"};
  left.node = NodeId{"h01"};
  left.status.code = 4;
  left.when = around(bench.now);
  left.last_lines = {"Connection reset by peer"};
  bench.observe(left);
  RankExited stopped = left;
  stopped.node = NodeId{"h02"};
  stopped.rank = RankId{1};
  stopped.status = {0, SIGTERM};
  stopped.asked_to_stop = true;
  stopped.when = around(bench.now + Milliseconds{50});
  stopped.last_lines = {"KeyError: 'text'"};
  bench.observe(stopped);
  bench.obey();
  const AttemptCause& cause = bench.last<AttemptEnded>()->cause;
  CHECK(cause.first_rank == RankId{1});
  CHECK(cause.sentence == "rank 1 on h02 was ending when it was stopped; 1 failed afterwards");
  CHECK(cause.status.code == 4);
  CHECK(cause.last_lines == stopped.last_lines);
}

TEST_CASE("candidates are told one by one") {
  Bench bench(a_job().on_nodes(4));
  bench.exit_rank(3, {1, 0}, Milliseconds{10});
  bench.exit_and_obey(1, {2, 0}, Milliseconds{11});
  const auto lines = explain_text(bench.journal);
  CHECK(std::count_if(lines.begin(), lines.end(), [](const std::string& line) {
          return line.find("  candidate: rank ") != std::string::npos;
        }) == 2);
}
