// The JSON report of a job that failed, was retried and completed, against the text beside this
// file: its schema is a promise.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/job/report.h"
#include "scheduler/model/record.h"
#include "tests/cli/golden.h"

using namespace muster;

namespace {

const JobId job{"calm_kite"};

void add(std::vector<Record>& records, std::int64_t at_ms, Observation what) {
  records.push_back({from_ms(at_ms), std::move(what)});
}
void decide_at(std::vector<Record>& records, std::int64_t at_ms, Decision what) {
  records.push_back({from_ms(at_ms), std::move(what)});
}

JobSubmitted submission() {
  JobSubmitted submitted;
  submitted.job = job;
  submitted.spec.name = job.value;
  submitted.spec.distribution.type = DistributionType::pytorch;
  submitted.spec.instance_count = 2;
  submitted.target.name = "lab";
  submitted.target.nodes.resize(2);
  submitted.target.nodes[0].id = NodeId{"n1"};
  submitted.target.nodes[1].id = NodeId{"n2"};
  submitted.user = "ada";
  return submitted;
}

AttemptEnded first_end() {
  AttemptEnded ended;
  ended.job = job;
  ended.cause.failure_class = FailureClass::user;
  ended.cause.sentence = "rank 1 on n2 was killed by SIGKILL";
  ended.cause.first_rank = RankId{1};
  ended.cause.first_node = NodeId{"n2"};
  ended.cause.status.signal = 9;
  FirstFailure first;
  first.rank = RankId{1};
  first.node = NodeId{"n2"};
  first.at_ms = 3900;
  first.margin_us = 212'000;
  first.uncertainty_us = 400;
  first.followed = 1;
  first.evidence = {"signal 9 (SIGKILL)"};
  ended.cause.first_failure = first;
  ended.cause.last_lines = {"step 45"};
  ended.newest_checkpoint = CheckpointRef{40, "/ckpt/s40-g1"};
  return ended;
}

StopBegun stop_of(AttemptId attempt, StopReason reason) {
  StopBegun stop;
  stop.job = job;
  stop.attempt = attempt;
  stop.reason = reason;
  return stop;
}

std::vector<Record> story() {
  std::vector<Record> records;
  add(records, 1000, submission());
  decide_at(records, 1001, AttemptPlaced{job, AttemptId{0}, {NodeId{"n1"}, NodeId{"n2"}}, "free"});
  decide_at(records, 1100, StagingBegun{job, AttemptId{0}});
  decide_at(records, 1500, LaunchBegun{job, AttemptId{0}, std::nullopt, "no checkpoint"});
  add(records, 1600, NodeStarted{job, AttemptId{0}, NodeId{"n1"}, ""});
  add(records, 1700, NodeStarted{job, AttemptId{0}, NodeId{"n2"}, ""});
  add(records, 3000, ProgressSeen{job, AttemptId{0}, 45, CheckpointRef{40, "/ckpt/s40-g1"}});
  decide_at(records, 3900, stop_of(AttemptId{0}, StopReason::rank_failed));
  decide_at(records, 4000, first_end());
  RetryScheduled retry;
  retry.job = job;
  retry.at = from_ms(5000);
  retry.rule = "class user: restart 1 of 3";
  decide_at(records, 4000, retry);
  decide_at(records, 5000, AttemptPlaced{job, AttemptId{1}, {NodeId{"n1"}, NodeId{"n2"}}, "free"});
  add(records, 5020, NodeChecked{job, AttemptId{1}, NodeId{"n1"}, {}, {}});
  add(records, 5090, NodeChecked{job, AttemptId{1}, NodeId{"n2"}, {}, {}});
  decide_at(records, 5100, StagingBegun{job, AttemptId{1}});
  decide_at(records, 5500,
            LaunchBegun{job, AttemptId{1}, CheckpointRef{40, "/ckpt/s40-g1"}, "newest"});
  AttemptEnded last;
  last.job = job;
  last.attempt = AttemptId{1};
  last.cause.succeeded = true;
  last.cause.sentence = "every rank ended with 0";
  decide_at(records, 8900, stop_of(AttemptId{1}, StopReason::finished));
  decide_at(records, 9000, last);
  decide_at(records, 9000, JobEnded{job, JobEndState::completed, 0, "every rank ended with 0"});
  return records;
}

// n2 lost its link before the second attempt; n1 kept its own.
std::vector<Record> links() {
  LinkUp up;
  up.node = NodeId{"n2"};
  up.profile = {{"tcp", 800}, {"kex", 4'200}, {"shell", 21'000}};
  up.methods = "curve25519-sha256 aes128-ctr hmac-sha2-256";
  return {{from_ms(5040), Observation{up}}};
}

JobRow row() {
  JobRow row;
  row.name = job.value;
  row.display_name = "Calm kite";
  row.experiment = "kites";
  row.compute = "lab";
  row.user = "ada";
  row.state = "Completed";
  row.reason = "every rank ended with 0";
  row.submitted_at = from_ms(1000);
  row.started_at = from_ms(1500);
  row.ended_at = from_ms(9000);
  row.exit_code = 0;
  row.attempts = 2;
  row.nodes_min = 2;
  row.nodes_max = 2;
  row.tags = R"({"team":"wind"})";
  return row;
}

void compare_report(const std::string& name, const Document& document) {
  check_golden(document.dump(2) + "\n", "tests/cli/golden/" + name);
}

}  // namespace

TEST_CASE("the report of a job that was retried has the documented schema") {
  const auto document = report_document(row(), {story(), links()}, "/home/jobs/calm_kite");
  compare_report("report.json", document);
}

TEST_CASE("the report lists who may have failed first when nobody can be named") {
  AttemptEnded ended = first_end();
  FirstFailure unknown;
  unknown.candidates = {{RankId{0}, NodeId{"n1"}, "exited with code 1"},
                        {std::nullopt, NodeId{"n2"}, "was lost"}};
  ended.cause.first_rank.reset();
  ended.cause.first_node.reset();
  ended.cause.last_lines.clear();
  ended.cause.first_failure = unknown;
  std::vector<Record> records = story();
  const auto is_end = [](const Record& record) { return record_as<AttemptEnded>(record); };
  records.erase(std::find_if(records.begin(), records.end(), is_end), records.end());
  decide_at(records, 4000, ended);
  const Document report = report_document(row(), {records, {}}, "/d");
  compare_report("report_undecided.json", report["attempts"][0]);
}

TEST_CASE("the report of a job that waits has nulls where nothing is known") {
  JobRow waiting;
  waiting.name = job.value;
  waiting.state = "Queued";
  waiting.reason = "0 of 2 nodes of lab are free";
  waiting.tags = "";
  std::vector<Record> records;
  add(records, 1000, submission());
  compare_report("report_queued.json", report_document(waiting, {records, {}}, "/d"));
}

TEST_CASE("a job whose restarts are exhausted keeps its program's own code in the report") {
  AttemptEnded ended = first_end();
  ended.cause.first_rank.reset();
  ended.cause.status = {3, 0};
  std::vector<Record> records = story();
  const auto is_end = [](const Record& record) { return record_as<AttemptEnded>(record); };
  records.erase(std::find_if(records.begin(), records.end(), is_end), records.end());
  decide_at(records, 4000, ended);
  decide_at(records, 4000, JobEnded{job, JobEndState::failed, 93, "twice in the same way"});
  JobRow failed = row();
  failed.exit_code = 93;
  const Document report = report_document(failed, {records, {}}, "/d");
  CHECK(report["exit_code"] == 93);
  CHECK(report["program_exit"] == Document{{"code", 3}, {"signal", nullptr}});
}
