#include "launcher/controller/controller.h"

#include <algorithm>

#include "scheduler/explain/explain.h"
#include "scheduler/model/record.h"
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
  CHECK(muster.controller->request_context().rows.find({"ghost"}) == nullptr);
  CHECK_FALSE(muster.controller->request_context().state.jobs.contains({"ghost"}));
  muster.disk_fails = false;
  REQUIRE(muster.submit("real"));
  const auto reader = muster.store(Store::Mode::read_only);
  const auto rows = reader->jobs({});
  REQUIRE(rows);
  REQUIRE(rows->size() == 1);
  CHECK(rows->front().name == "real");
  CHECK(reader->records_of({"ghost"})->empty());
}

// What the next controller does with a job whose outputs had been collected from n1, and perhaps
// went to a store: the errors by which it takes them back.
std::vector<std::string> taken_back(bool delivers, bool was_left) {
  RunningController muster;
  {
    const JobId job{"j"};
    const AttemptId attempt{0};
    const NodeId node{"n1"};
    JobSubmitted submitted = a_job("j", "a");
    submitted.spec.outputs["model"].is_in_store = delivers;
    std::vector<Record> records = {
        {from_ms(1), Observation{submitted}},
        {from_ms(2), Decision{AttemptPlaced{job, attempt, {node}, ""}}},
        {from_ms(3), Decision{StagingBegun{job, attempt}}},
        {from_ms(4), Decision{LaunchBegun{job, attempt, {}, "", false}}},
        {from_ms(5), Observation{NodeStarted{job, attempt, node, "", "/jobs/j"}}},
        {from_ms(6), Decision{StopBegun{job, attempt, StopReason::finished, "", {}, {}}}},
        {from_ms(7), Observation{NodeClean{job, attempt, node, {}, {}}}},
        {from_ms(8), Decision{CollectionBegun{job, attempt}}},
        {from_ms(9), Observation{OutputsCollected{job, attempt, node, ""}}}};
    if (delivers) records.push_back({from_ms(10), Decision{DeliveryBegun{job, attempt}}});
    JobRow row;
    row.name = "j";
    row.state = "Finalizing";
    row.attempts = 1;
    REQUIRE(muster.store(Store::Mode::read_write)->append(records, {row}));
  }
  if (was_left) std::filesystem::create_directories(muster.scratch.path() / "jobs/j/.incoming");
  muster.start();
  const auto records = muster.store(Store::Mode::read_only)->records_of({"j"});
  REQUIRE(records);
  std::vector<std::string> errors;
  for (const Record& record : *records) {
    const auto* seen = record_as<OutputsCollected>(record);
    if (seen != nullptr && !seen->error.empty()) errors.push_back(seen->error);
    CHECK((record_as<AttemptEnded>(record) == nullptr || (delivers && !was_left)));
  }
  return errors;
}

TEST_CASE("outputs that had come to a controller that died are requested by the next one") {
  const std::vector<std::string> restarted{"the controller was restarted"};
  CHECK(taken_back(false, true) == restarted);
  CHECK(taken_back(false, false) == restarted);
  // Killed between the record by which they go to their store and their being in place.
  CHECK(taken_back(true, true) == restarted);
  CHECK(taken_back(true, false).empty());
}

TEST_CASE(
    "a job that lives says that another controller continues with it, one that ended does not") {
  RunningController muster;
  JobRow ended, live;
  ended.name = "ended";
  ended.ended_at = from_ms(2);
  live.name = "live";
  REQUIRE(muster.store(Store::Mode::read_write)
              ->append({{from_ms(1), Observation{a_job("ended", "a")}},
                        {from_ms(2), Decision{JobEnded{{"ended"}, JobEndState::failed, 1, ""}}},
                        {from_ms(3), Observation{a_job("live", "a")}}},
                       {ended, live}));
  muster.start();
  REQUIRE(muster.submit("new"));
  const auto told = [&](const char* job) {
    const auto lines = explain_text(*muster.store(Store::Mode::read_only)->records_of({job}));
    return std::count_if(lines.begin(), lines.end(), [](const std::string& line) {
      return line.ends_with("  the controller was restarted");
    });
  };
  CHECK(told("live") == 1);
  CHECK(told("ended") == 0);
  CHECK(told("new") == 0);
}

TEST_CASE("a controller that dies again and again has one line in the story of a job") {
  std::vector<Record> records{{from_ms(1000), Observation{a_job("live", "a")}}};
  for (const int second : {10, 18, 26}) {
    records.push_back({from_ms(second * 1000), Observation{ControllerRestarted{{"live"}}}});
  }
  const auto lines = explain_text(records);
  REQUIRE(lines.size() == 2);
  CHECK(lines[1].ends_with("the controller was restarted; and so on, 3 times in 16 s"));
}

// A job of n1 that has ended there while processes of it live on; `last`: what was journaled then.
void leave_processes(RunningController& muster, const std::vector<Record>& last = {}) {
  const JobId job{"j"};
  const AttemptId attempt{0};
  const NodeId node{"n1"};
  std::vector<Record> records = {
      {from_ms(1), Observation{a_job("j", "first")}},
      {from_ms(2), Decision{AttemptPlaced{job, attempt, {node}, ""}}},
      {from_ms(3), Decision{StagingBegun{job, attempt}}},
      {from_ms(4), Decision{LaunchBegun{job, attempt, {}, "", false}}},
      {from_ms(5), Decision{StopBegun{job, attempt, StopReason::canceled, "", {}, {}}}},
      {from_ms(6), Observation{NodeClean{job, attempt, node, {}, {"python (pid 7)"}}}},
      {from_ms(7), Decision{AttemptEnded{job, attempt, {}, {}}}},
      {from_ms(8), Decision{JobEnded{job, JobEndState::canceled, 130, "canceled"}}}};
  records.insert(records.end(), last.begin(), last.end());
  JobRow row;
  row.name = "j";
  row.state = "Canceled";
  row.ended_at = from_ms(8);
  row.attempts = 1;
  row.unclean = true;
  REQUIRE(muster.store(Store::Mode::read_write)->append(records, {row}));
}

TEST_CASE("a node that holds processes of a job that is gone is reached as that job reached it") {
  RunningController muster;
  leave_processes(muster);
  muster.start();
  REQUIRE(muster.transport->asked.size() == 1);
  CHECK(muster.transport->asked[0].address.id == NodeId{"n1"});
  CHECK(muster.transport->asked[0].address.host == "first");
  // And told once more to end them.
  const auto wire = muster.transport->answer(0);
  wire->say(Welcome{});
  std::vector<StopAttempt> stops;
  muster.run_until([&] {
    for (const StopAttempt& stop : wire->take<StopAttempt>()) stops.push_back(stop);
    return !stops.empty();
  });
  CHECK(stops[0].job == JobId{"j"});
}

TEST_CASE("of the ways to reach a node that a job was given the latest counts") {
  RunningController muster;
  ResumeRequested resume;
  resume.job = {"j"};
  resume.spec = a_job("j", "later").spec;
  resume.target = a_job("j", "later").target;
  leave_processes(muster, {{from_ms(9), Observation{resume}},
                           {from_ms(10), Decision{JobEnded{{"j"}, JobEndState::failed, 1, ""}}}});
  muster.start();
  REQUIRE_FALSE(muster.transport->asked.empty());
  CHECK(muster.transport->asked.back().address.host == "later");
}

TEST_CASE("nodes of an attempt that has ended are told to forget it, and then the job") {
  RunningController muster;
  muster.start();
  REQUIRE(muster.submit("j"));
  muster.run_until([&] { return !muster.transport->asked.empty(); });
  const auto wire = muster.transport->answer(0);
  Welcome welcome;
  welcome.agent_id = "agent";
  welcome.boot_id = "boot";
  wire->say(welcome);
  muster.run_until([&] { return !wire->take<CheckNode>().empty(); });
  muster.controller->observe(CancelRequested{{"j"}, {}});
  std::vector<std::string> told;
  muster.run_until([&] {
    for (auto frame = wire->written.next(); frame && *frame; frame = wire->written.next()) {
      const auto message = decode<ToAgent>(std::move(**frame));
      REQUIRE(message);
      if (const auto* forget = std::get_if<ForgetAttempt>(&message->message)) {
        told.push_back(forget->job.value + " " + std::to_string(forget->attempt.value));
      }
      if (const auto* forget = std::get_if<ForgetJob>(&message->message)) {
        told.push_back("all of " + forget->job.value);
      }
    }
    return told.size() >= 2;
  });
  CHECK(told == std::vector<std::string>{"j 0", "all of j"});
}

}  // namespace
}  // namespace muster
