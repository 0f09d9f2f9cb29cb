// What people read: explain, the summary, the state's name; and that the journal alone can tell it.
#include <csignal>

#include "scheduler/explain/explain.h"
#include "scheduler/explain/summary.h"
#include "scheduler/model/record.h"
#include "scheduler/state/lookup.h"
#include "tests/catch.h"
#include "tests/scheduler/bench.h"
#include "tests/sim/model/dump.h"
#include "tests/sim/model/replay.h"

using namespace muster;
using namespace muster::test;

namespace {

// Runs, is killed after step 120, resumes from step 100, ends well.
Bench a_story() {
  Bench bench(a_job().on_nodes(2));
  bench.pass(Seconds{60});
  bench.progress(120, sealed(100));
  bench.fail_and_retry(1, {0, SIGKILL});
  bench.progress(200, sealed(200, 2));
  bench.finish();
  return bench;
}

std::string joined(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

}  // namespace

TEST_CASE("explain tells what happened, in order, with rule and evidence") {
  const Bench bench = a_story();
  const std::string text = joined(explain_text(bench.journal));
  CHECK_THAT(text, ContainsSubstring("+0 s  submitted by ada: wants 2 nodes of lab, priority 0"));
  CHECK_THAT(text, ContainsSubstring("attempt 0 allocated h01, h02: first free nodes of lab"));
  CHECK_THAT(text, ContainsSubstring("rank 1 on h02 was killed by SIGKILL after step 120"));
  CHECK_THAT(text, ContainsSubstring("attempt 0 ended: rank 1 on h02 was killed by SIGKILL after "
                                     "step 120; class user; newest checkpoint: step 100"));
  CHECK_THAT(text,
             ContainsSubstring("on the same nodes: class user: backoff; restart 1 of 3 (per 1 h) "
                               "after "));
  CHECK_THAT(text,
             ContainsSubstring("attempt 1 resumes from step 100: newest committed checkpoint"));
  CHECK_THAT(text, ContainsSubstring("ended: Completed, exit code 0"));
}

TEST_CASE("explain says nothing of a step that only an attempt before had reached") {
  Bench bench(a_job().on_nodes(2));
  bench.progress(120, sealed(100));
  bench.fail_and_retry(1, {0, SIGKILL});
  // A step of the attempt before may be told late, or again.
  bench.journal.push_back({bench.now, ProgressSeen{JobId{"train"}, AttemptId{0}, 120, {}}});
  bench.exit_rank(1, {0, SIGTERM});
  const std::string text = joined(explain_text(bench.journal));
  CHECK_THAT(text, ContainsSubstring("rank 1 on h02 was killed by SIGKILL after step 120\n"));
  CHECK_THAT(text, ContainsSubstring("rank 1 on h02 was killed by SIGTERM\n"));
}

TEST_CASE("explain says nothing of the step of a program that tells none") {
  Bench bench(a_job().on_nodes(2));
  bench.progress(0, sealed(100));
  bench.fail_and_retry(1, {0, SIGKILL});
  const std::string text = joined(explain_text(bench.journal));
  CHECK_THAT(text, ContainsSubstring("rank 1 on h02 was killed by SIGKILL\n"));
  CHECK_THAT(text, !ContainsSubstring("after step"));
}

TEST_CASE("explain tells the gist of a failure in five lines, six with a fault of a node") {
  const auto lines = explain_text(a_story().journal, true);
  REQUIRE(lines.size() == 5);
  CHECK_THAT(lines[0], ContainsSubstring("attempt 0 ended: rank 1 on h02 was killed by SIGKILL"));
  CHECK_THAT(lines[1], ContainsSubstring("evidence: its last output: ValueError: no such batch"));
  CHECK_THAT(lines[2], ContainsSubstring("attempt 1 allocated h01, h02"));
  CHECK_THAT(lines[3], ContainsSubstring("attempt 1 resumes from step 100"));
  CHECK_THAT(lines[4], ContainsSubstring("ended: Completed, exit code 0"));
}

TEST_CASE("explain in short tells the first evidence where it is more than the exit code") {
  Bench bench(a_job().on_nodes(1).restarts(0));
  bench.exit_and_obey(0, {1, 0}, {}, "train", "ValueError: bad data");
  const std::string text = joined(explain_text(bench.journal, true));
  CHECK_THAT(text, ContainsSubstring("evidence: its last output: ValueError: bad data"));
  CHECK_THAT(text, !ContainsSubstring("evidence: exit code 1"));
  Bench silent(a_job().on_nodes(1).restarts(0));
  silent.exit_and_obey(0, {1, 0}, {}, "train", "");
  CHECK_THAT(joined(explain_text(silent.journal, true)), !ContainsSubstring("evidence"));
}

TEST_CASE("explain in short tells of a run that stands still, until it moves again") {
  const auto stall = [](StallKind kind, const std::string& sentence) {
    StallSeen seen;
    seen.job = JobId{"train"};
    seen.stall = kind;
    seen.sentence = sentence;
    seen.evidence = {"rank 1 is stopped", "rank 0 waits", "rank 2 waits"};
    return Record{from_ms(9000), Observation{seen}};
  };
  std::vector<Record> journal = a_story().journal;
  const auto end = std::find_if(journal.begin(), journal.end(), [](const Record& record) {
    return record_as<AttemptEnded>(record) != nullptr;
  });
  journal.erase(end, journal.end());
  CHECK(explain_text(journal, true).empty());
  journal.push_back(stall(StallKind::suspect, "no step for 12 s; rank 1 on h02 is stopped"));
  const std::string text = joined(explain_text(journal, true));
  CHECK_THAT(text, ContainsSubstring("no step for 12 s; rank 1 on h02 is stopped"));
  CHECK_THAT(text, ContainsSubstring("evidence: rank 0 waits"));
  CHECK_THAT(text, !ContainsSubstring("rank 2 waits"));

  std::vector<Record> moved = journal;
  moved.push_back(stall(StallKind::over, "goes on"));
  CHECK(explain_text(moved, true).empty());

  AttemptEnded hung;
  hung.job = JobId{"train"};
  hung.cause.reason = StopReason::hung;
  hung.cause.sentence = "hung after step 120";
  journal.push_back(Record{from_ms(9500), Decision{hung}});
  CHECK_THAT(joined(explain_text(journal, true)), ContainsSubstring("evidence: rank 1 is stopped"));
  hung.cause.reason = StopReason::rank_failed;
  journal.back() = Record{from_ms(9500), Decision{hung}};
  CHECK_THAT(joined(explain_text(journal, true)), !ContainsSubstring("rank 1 is stopped"));
}

TEST_CASE("explain names the first ranks that failed and counts those that followed") {
  Bench bench(a_job().on_nodes(4).ranks_per_node(8));
  for (int rank = 0; rank < 32; ++rank) bench.exit_rank(rank, {1, 0});
  bench.obey();
  const std::string text = joined(explain_text(bench.journal));
  CHECK_THAT(text, ContainsSubstring("rank 3 on h01 exited with code 1"));
  CHECK_THAT(text, !ContainsSubstring("s  rank 4 on h01"));
  CHECK_THAT(text, ContainsSubstring("28 others failed afterwards"));
}

TEST_CASE("a program that tells no steps got as far as it saved") {
  Bench bench(a_job().on_nodes(2));
  CheckpointRef saved = sealed(40, 2);
  saved.kind = "accelerate";
  bench.progress(0, saved);
  CHECK(summarize(bench.journal).attempts[0].last_step == 40);
  CHECK(summarize(bench.journal).last_step == 40);
  saved.step = CheckpointRef::no_step;
  saved.changed_ms = 1;
  bench.progress(0, saved);
  bench.fail_and_retry(1, {0, SIGKILL});
  CHECK(!summarize(bench.journal).attempts[0].last_step);
  CHECK(!summarize(bench.journal).attempts[1].last_step);
}

TEST_CASE("the summary of a job has its attempts, its end and its newest checkpoint") {
  const Bench bench = a_story();
  const JobSummary summary = summarize(bench.journal);
  CHECK(summary.job == JobId{"train"});
  CHECK(summary.state == "Completed");
  CHECK(summary.exit_code == 0);
  CHECK(summary.last_step == 200);
  CHECK(summary.checkpoint->step == 200);
  REQUIRE(summary.attempts.size() == 2);
  CHECK(summary.attempts[0].cause->sentence == "rank 1 on h02 was killed by SIGKILL");
  CHECK(summary.attempts[0].last_step == 120);
  CHECK(!summary.attempts[0].resumed_from_step);
  CHECK(summary.attempts[1].resumed_from_step == 100);
  CHECK(summary.started);
  CHECK(summary.ended);
}

TEST_CASE("the summary of a waiting job says why it waits") {
  Bench bench(a_job("x").on_nodes(4), 0);
  bench.submit(a_job("y").on_nodes(4));
  std::vector<Record> of_y;
  for (const Record& record : bench.journal) {
    const JobId* job = job_of(record);
    if (job && *job == JobId{"y"}) of_y.push_back(record);
  }
  const JobSummary summary = summarize(of_y);
  CHECK(summary.state == "Queued");
  CHECK_THAT(summary.reason, ContainsSubstring("h01 is running job x"));
  CHECK(!summary.exit_code);
}

TEST_CASE("a job's state has Azure's names on the way") {
  Bench bench;
  std::vector<std::string> names;
  const auto note = [&] {
    const std::string name = job_state_name(bench.state, bench.job());
    if (names.empty() || names.back() != name) names.push_back(name);
  };
  bench.submit(a_job().on_nodes(1));
  note();
  bench.link(1);
  for (auto works = pending_work(bench.state); !works.empty(); works = pending_work(bench.state)) {
    note();
    bench.obey(works.front());
  }
  note();
  bench.exit_rank(0, {});
  note();
  CHECK(names ==
        std::vector<std::string>{"Provisioning", "Preparing", "Starting", "Running", "Finalizing"});
}

TEST_CASE("the journal alone gives the same state and the same decisions") {
  Bench bench(a_job().on_nodes(2));
  bench.progress(5, sealed(5));
  bench.fail_and_retry(0, {1, 0});
  const Replay again = replay(bench.journal);
  CHECK(describe(again.state) == describe(bench.state));
  CHECK(again.disagreements.empty());
}

TEST_CASE("replay names a recorded decision that would be made otherwise today") {
  Bench bench(a_job().on_nodes(2));
  for (Record& record : bench.journal) {
    auto* decision = std::get_if<Decision>(&record.what);
    auto* placed = decision ? std::get_if<AttemptPlaced>(decision) : nullptr;
    if (placed) placed->nodes = {NodeId{"h03"}, NodeId{"h04"}};
  }
  const Replay again = replay(bench.journal);
  REQUIRE(!again.disagreements.empty());
  CHECK_THAT(again.disagreements.front().decided, ContainsSubstring("h01"));
}
