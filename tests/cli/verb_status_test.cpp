// What `status` says of one job, line by line.
#include <nlohmann/json.hpp>

#include "scheduler/model/record.h"
#include "tests/catch.h"
#include "tests/cli/command_site.h"

using namespace muster;

namespace {

const JobId kite{"kite"};

// Attempt 0 fails at step 45, attempt 1 is given up, attempt 2 runs, or has ended well.
std::vector<Record> flight(bool has_ended) {
  std::vector<Record> records;
  const auto add = [&](std::int64_t at_ms, auto what) {
    if constexpr (std::is_constructible_v<Decision, decltype(what)>) {
      records.push_back({from_ms(at_ms), Decision(std::move(what))});
    } else {
      records.push_back({from_ms(at_ms), Observation(std::move(what))});
    }
  };
  JobSubmitted submitted;
  submitted.job = kite;
  submitted.spec.name = kite.value;
  submitted.spec.instance_count = 2;
  submitted.target.name = "lab";
  submitted.target.nodes.resize(2);
  submitted.target.nodes[0].id = NodeId{"n1"};
  submitted.target.nodes[1].id = NodeId{"n2"};
  submitted.user = "ada";
  add(1000, submitted);
  const std::vector<NodeId> nodes{NodeId{"n1"}, NodeId{"n2"}};
  add(1001, AttemptPlaced{kite, AttemptId{0}, nodes, "free"});
  add(1500, LaunchBegun{kite, AttemptId{0}, std::nullopt, "no checkpoint"});
  add(1600, NodeStarted{kite, AttemptId{0}, NodeId{"n1"}, ""});
  add(1700, NodeStarted{kite, AttemptId{0}, NodeId{"n2"}, ""});
  add(3000, ProgressSeen{kite, AttemptId{0}, 45, CheckpointRef{40, "/ckpt/s40-g1"}});
  AttemptEnded failed;
  failed.job = kite;
  failed.cause.failure_class = FailureClass::user;
  failed.cause.sentence = "rank 1 on n2 was killed by SIGKILL";
  failed.newest_checkpoint = CheckpointRef{40, "/ckpt/s40-g1"};
  add(4000, failed);
  add(5000, AttemptPlaced{kite, AttemptId{1}, nodes, "free"});
  add(5100, PlacementAbandoned{kite, AttemptId{1}, "n2 was taken away", from_ms(5200)});
  add(6000, AttemptPlaced{kite, AttemptId{2}, nodes, "free"});
  add(6100, LaunchBegun{kite, AttemptId{2}, CheckpointRef{40, "/ckpt/s40-g1"}, "newest"});
  add(6200, NodeStarted{kite, AttemptId{2}, NodeId{"n1"}, ""});
  add(6300, NodeStarted{kite, AttemptId{2}, NodeId{"n2"}, ""});
  if (!has_ended) return records;
  AttemptEnded last;
  last.job = kite;
  last.attempt = AttemptId{2};
  last.cause.succeeded = true;
  last.cause.sentence = "every rank ended with 0";
  add(9000, last);
  add(9000, JobEnded{kite, JobEndState::completed, 0, "every rank ended with 0"});
  return records;
}

JobRow row_of(bool has_ended) {
  JobRow row;
  row.name = kite.value;
  row.display_name = has_ended ? kite.value : "Red kite";
  row.compute = "lab";
  row.user = "ada";
  row.state = has_ended ? "Completed" : "Running";
  row.submitted_at = from_ms(1000);
  row.started_at = from_ms(1700);
  row.attempts = 3;
  row.tags = "{}";
  if (!has_ended) return row;
  row.reason = "every rank\nended with 0";
  row.ended_at = from_ms(9000);
  row.exit_code = 0;
  row.step = 45;
  return row;
}

SaidByVerb status_of(const CommandSite& site, bool has_ended) {
  const auto store = Store::open(site.home().root, Store::Mode::read_write);
  REQUIRE(store);
  REQUIRE((*store)->append(flight(has_ended), {row_of(has_ended)}));
  return site.type("status kite");
}

// The lines that begin with the word.
std::vector<std::string> lines_of(const std::string& text, const std::string& key) {
  std::vector<std::string> found;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) {
    if (line.starts_with(key + " ")) found.push_back(line);
  }
  return found;
}

using Lines = std::vector<std::string>;

}  // namespace

TEST_CASE("status says of a job that has ended what is known, a line each, and nothing else") {
  const CommandSite site;
  const SaidByVerb said = status_of(site, true);
  CHECK(said.code == 0);
  CHECK(said.err.empty());
  CHECK(said.out.starts_with("job         kite\nstate       Completed, exit code 0\n"));
  CHECK(lines_of(said.out, "reason") == Lines{"reason      every rank ended with 0"});
  CHECK(lines_of(said.out, "compute") == Lines{"compute     lab"});
  CHECK(lines_of(said.out, "step") == Lines{"step        45"});
  CHECK(lines_of(said.out, "checkpoint") == Lines{"checkpoint  step 40 in /ckpt/s40-g1"});
  CHECK(lines_of(said.out, "directory") == Lines{"directory   " + site.home().job(kite).string()});
  REQUIRE(lines_of(said.out, "submitted").size() == 1);
  CHECK(lines_of(said.out, "submitted")[0].starts_with("submitted   1970-01-01 00:00:01 ("));
  CHECK(lines_of(said.out, "submitted")[0].ends_with(" by ada"));
  CHECK(lines_of(said.out, "ended").size() == 1);
  for (const char* unknown : {"display", "experiment", "nodes", "progress", "pace", "silent"}) {
    CAPTURE(unknown);
    CHECK(lines_of(said.out, unknown).empty());
  }
}

TEST_CASE("status says of each attempt how it ended, or that it runs") {
  const CommandSite site;
  const bool has_ended = GENERATE(true, false);
  const SaidByVerb said = status_of(site, has_ended);
  CHECK(said.code == 0);
  REQUIRE(lines_of(said.out, "0").size() == 1);
  CHECK_THAT(lines_of(said.out, "0")[0], ContainsSubstring("n1,n2"));
  CHECK_THAT(lines_of(said.out, "0")[0],
             ContainsSubstring("user: rank 1 on n2 was killed by SIGKILL"));
  REQUIRE(lines_of(said.out, "1").size() == 1);
  CHECK_THAT(lines_of(said.out, "1")[0], ContainsSubstring("given up: n2 was taken away"));
  REQUIRE(lines_of(said.out, "2").size() == 1);
  CHECK(lines_of(said.out, "2")[0].ends_with(has_ended ? " succeeded" : " running"));
}

TEST_CASE("status says of a running job under which other name it is shown, and no end") {
  const CommandSite site;
  const SaidByVerb said = status_of(site, false);
  CHECK_THAT(said.err, ContainsSubstring("no controller serves job kite from here"));
  CHECK(lines_of(said.out, "display name") == Lines{"display name Red kite"});
  CHECK(lines_of(said.out, "state") == Lines{"state       Running"});
  CHECK(lines_of(said.out, "ended").empty());
  CHECK(lines_of(said.out, "reason").empty());
}

TEST_CASE("status of a job that is not there ends with 1 and says so") {
  const CommandSite site;
  const SaidByVerb said = site.type("status nobody");
  CHECK(said.code == 1);
  CHECK(said.out.empty());
  CHECK_THAT(said.err, ContainsSubstring("job 'nobody' not found"));
  CHECK_THAT(site.type("status").err, ContainsSubstring("no jobs yet"));
}
