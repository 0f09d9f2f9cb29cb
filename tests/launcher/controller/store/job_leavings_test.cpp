#include "launcher/controller/store/job_leavings.h"

#include "tests/catch.h"

namespace muster {
namespace {

Record decided(Decision what) {
  return {from_ms(1), std::move(what)};
}

std::vector<Record> a_story(JobEndState end, const std::string& left_behind = "") {
  const JobId job{"train"};
  AttemptEnded ended{job, AttemptId{0}, {}, {}};
  ended.cause.left_behind = left_behind;
  const std::vector<NodeId> nodes{NodeId{"h1"}, NodeId{"h2"}};
  return {decided(AttemptPlaced{job, AttemptId{0}, nodes, "", {NodeId{"h3"}}}),
          decided(NodeReplaced{job, AttemptId{0}, NodeId{"h2"}, NodeId{"h4"}, "fan"}),
          decided(ended), decided(JobEnded{job, end, 0, ""})};
}

TEST_CASE("every node that was given files of a job is told when it has ended") {
  const JobLeavings leavings = leavings_of(a_story(JobEndState::completed));
  CHECK(leavings.nodes == std::set<NodeId>{{"h1"}, {"h2"}, {"h3"}, {"h4"}});
}

TEST_CASE("outputs stay on nodes when a resume may need them or they were not all copied") {
  CHECK(leavings_of(a_story(JobEndState::completed)).outputs_too);
  CHECK_FALSE(leavings_of(a_story(JobEndState::failed)).outputs_too);
  CHECK_FALSE(leavings_of(a_story(JobEndState::canceled)).outputs_too);
  CHECK_FALSE(leavings_of(a_story(JobEndState::completed, "outputs of h1")).outputs_too);
  std::vector<Record> left = a_story(JobEndState::completed);
  left.insert(left.begin(),
              decided(NodeReleased{JobId{"train"}, AttemptId{0}, NodeId{"h9"}, "outputs of h9"}));
  CHECK_FALSE(leavings_of(left).outputs_too);
}

TEST_CASE("a job without records cannot be resumed, so that nothing of it is needed on nodes") {
  CHECK(leavings_of({}).outputs_too);
}

}  // namespace
}  // namespace muster
