#include "launcher/controller/controller.h"

#include "scheduler/record_subject.h"
#include "tests/launcher/controller/running_controller.h"

namespace muster {
namespace {

TEST_CASE("a submission that could not be journaled is refused and leaves no trace") {
  RunningController muster;
  muster.start();
  muster.disk_fails = true;
  const Status refused = muster.submit("ghost");
  REQUIRE_FALSE(refused);
  CHECK(refused.error().message == "the disk is full");
  CHECK(muster.controller->desk().rows.find({"ghost"}) == nullptr);
  CHECK_FALSE(muster.controller->desk().state.jobs.contains({"ghost"}));
  muster.disk_fails = false;
  REQUIRE(muster.submit("real"));
  const auto reader = muster.store(Store::Mode::read_only);
  const auto rows = reader->jobs({});
  REQUIRE(rows);
  REQUIRE(rows->size() == 1);
  CHECK(rows->front().name == "real");
  CHECK(reader->records_of({"ghost"})->empty());
}

TEST_CASE("outputs that had come to a controller that died are asked for by the next one") {
  RunningController muster;
  {
    const JobId job{"j"};
    const AttemptId attempt{0};
    const NodeId node{"n1"};
    JobSubmitted submitted = a_job("j", "a");
    const std::vector<Record> records = {
        {from_ms(1), Observation{submitted}},
        {from_ms(2), Decision{AttemptPlaced{job, attempt, {node}, ""}}},
        {from_ms(3), Decision{StagingBegun{job, attempt}}},
        {from_ms(4), Decision{LaunchBegun{job, attempt, {}, "", false}}},
        {from_ms(5), Observation{NodeStarted{job, attempt, node, "", "/jobs/j"}}},
        {from_ms(6), Decision{StopBegun{job, attempt, StopReason::finished, "", {}, {}}}},
        {from_ms(7), Observation{NodeClean{job, attempt, node, {}, {}}}},
        {from_ms(8), Decision{CollectionBegun{job, attempt}}},
        {from_ms(9), Observation{OutputsCollected{job, attempt, node, ""}}}};
    JobRow row;
    row.name = "j";
    row.state = "Finalizing";
    row.attempts = 1;
    REQUIRE(muster.store(Store::Mode::read_write)->append(records, {row}));
  }
  muster.start();
  const auto records = muster.store(Store::Mode::read_only)->records_of({"j"});
  REQUIRE(records);
  std::vector<std::string> errors;
  for (const Record& record : *records) {
    if (const auto* seen = record_as<OutputsCollected>(record)) errors.push_back(seen->error);
    CHECK(record_as<AttemptEnded>(record) == nullptr);
  }
  CHECK(errors == std::vector<std::string>{"", "the controller was restarted"});
}

}  // namespace
}  // namespace muster
