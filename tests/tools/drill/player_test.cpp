// When steps of a drill are due, and what was found of its expectations.
#include "tools/drill/player.h"

#include <filesystem>
#include <fstream>

#include "tests/catch.h"
#include "tests/cli/folder.h"
#include "tools/drill/verdict.h"

namespace muster {
namespace {

DrillView at(int seconds) {
  DrillView view;
  view.now = Seconds{seconds};
  view.state = "Running";
  return view;
}

DrillStep step_when(DrillCondition condition) {
  DrillStep step;
  step.when = std::move(condition);
  return step;
}

DrillStep step_after(int seconds) {
  DrillStep step;
  step.after = {Seconds{seconds}, Seconds{seconds}};
  return step;
}

TEST_CASE("a step waits for its condition, and is due until it is done") {
  const std::vector<DrillStep> steps{step_when(StepTest{{Comparison::at_least, 20}})};
  DrillDice dice(1);
  DrillPlayer player(steps, dice);
  DrillView view = at(1);
  CHECK(player.due(view) == nullptr);  // no step has been seen
  view.step = 19;
  CHECK(player.due(view) == nullptr);
  view.step = 20;
  CHECK(player.due(view) == &steps[0]);
  view.step.reset();  // a restart: the condition has held
  CHECK(player.due(view) == &steps[0]);
  player.done();
  CHECK(player.is_over());
  CHECK(player.due(view) == nullptr);
}

TEST_CASE("a pause begins when the step before it is done") {
  const std::vector<DrillStep> steps{step_after(3), step_after(2)};
  DrillDice dice(1);
  DrillPlayer player(steps, dice);
  CHECK(player.due(at(10)) == nullptr);
  CHECK(player.due(at(12)) == nullptr);
  CHECK(player.due(at(13)) == &steps[0]);
  player.done();
  CHECK(player.due(at(20)) == nullptr);
  CHECK(player.due(at(22)) == &steps[1]);
}

TEST_CASE("a pause after a condition begins when the condition holds") {
  DrillStep step = step_when(StateTest{"Running", true});
  step.after = {Seconds{5}, Seconds{5}};
  const std::vector<DrillStep> steps{step};
  DrillDice dice(1);
  DrillPlayer player(steps, dice);
  DrillView view = at(1);
  view.state = "Starting";
  CHECK(player.due(view) == nullptr);
  CHECK(player.due(at(4)) == nullptr);
  CHECK(player.due(at(8)) == nullptr);
  CHECK(player.due(at(9)) == &steps[0]);
}

TEST_CASE("a checkpoint counts when it is newer than those at the step's turn") {
  const std::vector<DrillStep> steps{step_when(CheckpointCommitted{}),
                                     step_when(CheckpointCommitted{})};
  DrillDice dice(1);
  DrillPlayer player(steps, dice);
  DrillView view = at(1);
  view.checkpoint = 5;
  CHECK(player.due(view) == nullptr);
  view.checkpoint = 10;
  CHECK(player.due(view) == &steps[0]);
  player.done();
  CHECK(player.due(view) == nullptr);
  view.checkpoint = 15;
  CHECK(player.due(view) == &steps[1]);
}

TEST_CASE("a save counts from its first sight on, and output from its first byte on") {
  const std::vector<DrillStep> steps{step_when(OutputBegun{}), step_when(SaveBegun{})};
  DrillDice dice(1);
  DrillPlayer player(steps, dice);
  DrillView view = at(1);
  view.save = "s000000005-g1";
  CHECK(player.due(view) == nullptr);
  view.has_output = true;
  CHECK(player.due(view) == &steps[0]);
  player.done();
  CHECK(player.due(view) == nullptr);
  view.checkpoint = 5;  // that save is over
  CHECK(player.due(view) == nullptr);
  view.save = "s000000010-g1";
  CHECK(player.due(view) == &steps[1]);
}

TEST_CASE("the same seed makes the same choices") {
  DrillDice one(42), other(42), third(43);
  std::vector<std::size_t> a, b, c;
  for (int i = 0; i < 50; ++i) {
    a.push_back(one.pick(1000));
    b.push_back(other.pick(1000));
    c.push_back(third.pick(1000));
  }
  CHECK(a == b);
  CHECK(a != c);
  DrillDice dice(7);
  for (int i = 0; i < 200; ++i) {
    const Milliseconds drawn = dice.between(Milliseconds{10}, Milliseconds{12});
    CHECK(drawn >= Milliseconds{10});
    CHECK(drawn <= Milliseconds{12});
  }
}

void write(const std::filesystem::path& path, const std::string& text) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path) << text;
}

TEST_CASE("outputs are equal when the same files hold the same bytes") {
  const Folder folder;
  const std::filesystem::path one = folder.path() / "one", other = folder.path() / "other";
  CHECK(difference(one, other, {}) == "the reference run left none");
  write(one / "m/a", "1");
  CHECK(difference(one, other, {}) == "m/a is not in the disturbed run");
  write(other / "m/a", "2");
  CHECK(difference(one, other, {}) == "m/a differs");
  write(other / "m/a", "1");
  CHECK(difference(one, other, {}) == "");
  write(other / "m/b", "1");
  CHECK(difference(one, other, {}) == "m/b is only in the disturbed run");
  CHECK(difference(one, other, {"m/a"}) == "");
  CHECK(difference(one, other, {"m/c"}) == "m/c is not in the reference run");
}

TEST_CASE("a line that is lost or said twice is a gap in the count") {
  std::int64_t numbers = 0;
  CHECK(gap_in("hello\ntick 3\ntick 4\nother\ntick 5\n", "tick {n}", numbers) == "");
  CHECK(numbers == 3);
  CHECK(gap_in("tick 3\ntick 5\n", "tick {n}", numbers) == "5 follows 3");
  CHECK(gap_in("tick 3\ntick 3\n", "tick {n}", numbers) == "3 follows 3");
  CHECK(gap_in("<1>\n<2>\n<x>\n", "<{n}>", numbers) == "");
}

TEST_CASE("each expectation is judged by itself") {
  DrillExpectations expect;
  expect.status = "Completed";
  expect.exit_code = NumberTest{Comparison::equal, 0};
  expect.attempts = NumberTest{Comparison::at_least, 2};
  expect.explain = {"resumes", "never said"};
  expect.no_process_left = true;
  DrillFacts facts;
  facts.status = "Failed";
  facts.exit_code = 0;
  facts.attempts = 3;
  facts.explain = {"attempt 1 resumes from step 5"};
  facts.leftovers = {"12 (sleep)"};
  const auto verdicts = judge(expect, facts);
  REQUIRE(verdicts.size() == 6);
  const std::vector<bool> met{false, true, true, true, false, false};
  for (std::size_t i = 0; i < met.size(); ++i) {
    INFO(verdicts[i].what);
    CHECK(verdicts[i].met == met[i]);
  }
  CHECK(verdicts[5].found == "12 (sleep)");
}

TEST_CASE("a drill passes when every step was done and every expectation was met") {
  DrillReport report;
  CHECK(report.passed());
  report.verdicts.push_back({"status", "Completed", "Completed", true});
  report.steps.push_back({3, "kill a rank", Seconds{1}, "rank 0", true});
  CHECK(report.passed());
  report.steps.push_back({4, "kill an agent", std::nullopt, "the job was over before", false});
  CHECK_FALSE(report.passed());
}

}  // namespace
}  // namespace muster
