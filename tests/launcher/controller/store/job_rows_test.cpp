#include "launcher/controller/store/job_rows.h"

#include "scheduler/apply/apply.h"
#include "tests/catch.h"

namespace muster {
namespace {

// The rows as they are kept while records come.
class Fold {
 public:
  template <class T>
  void see(const T& what) {
    const Record record{from_ms(at_ms_ += 10), what};
    apply(state_, record);
    rows_.note(record, state_);
  }
  const JobRow& row() {
    REQUIRE(has_row());
    return *rows_.find({"train"});
  }
  bool has_row() const { return rows_.find({"train"}) != nullptr; }

 private:
  State state_;
  JobRows rows_;
  std::int64_t at_ms_ = 0;
};

JobSubmitted a_submission() {
  JobSubmitted submitted;
  submitted.job = {"train"};
  submitted.spec.instance_count = 2;
  submitted.spec.muster.nodes_min = 2;
  submitted.spec.muster.nodes_max = 3;
  for (const char* node : {"n1", "n2", "n3"}) {
    submitted.target.nodes.emplace_back();
    submitted.target.nodes.back().id = {node};
  }
  return submitted;
}

TEST_CASE("a row says between how many nodes a job may have, and which it has") {
  Fold fold;
  fold.see(Observation{a_submission()});
  CHECK(fold.row().nodes_min == 2);
  CHECK(fold.row().nodes_max == 3);
  CHECK(fold.row().nodes.empty());
  fold.see(Decision{AttemptPlaced{{"train"}, AttemptId{0}, {{"n1"}, {"n2"}}, "free", {}}});
  CHECK(fold.row().nodes == "n1,n2");
}

TEST_CASE("a row says which node holds up the start, until the nodes are there") {
  Fold fold;
  fold.see(Observation{a_submission()});
  fold.see(Decision{AttemptPlaced{{"train"}, AttemptId{0}, {{"n1"}, {"n2"}}, "free", {}}});
  CHECK(fold.row().reason.empty());
  fold.see(Decision{AnswersAwaited{{"train"}, AttemptId{0}, {{"n2"}}, "n2 has not answered"}});
  CHECK(fold.row().reason == "n2 has not answered");
  fold.see(Observation{NodeChecked{{"train"}, AttemptId{0}, {"n1"}, {}, std::nullopt}});
  CHECK(fold.row().reason == "n2 has not answered");
  fold.see(Decision{StagingBegun{{"train"}, AttemptId{0}}});
  CHECK(fold.row().reason.empty());
}

TEST_CASE("a row's step is that of the checkpoint where the program tells none") {
  Fold fold;
  fold.see(Observation{a_submission()});
  fold.see(Decision{AttemptPlaced{{"train"}, AttemptId{0}, {{"n1"}, {"n2"}}, "free", {}}});
  CheckpointRef saved;
  saved.step = 40;
  fold.see(Observation{ProgressSeen{{"train"}, AttemptId{0}, 0, saved}});
  CHECK(fold.row().step == 40);
  CHECK(fold.row().checkpoint_step == 40);
  fold.see(Observation{ProgressSeen{{"train"}, AttemptId{0}, 43, saved}});
  CHECK(fold.row().step == 43);
}

TEST_CASE("a node that takes another's place is in the row") {
  Fold fold;
  fold.see(Observation{a_submission()});
  fold.see(Decision{AttemptPlaced{{"train"}, AttemptId{0}, {{"n1"}, {"n2"}}, "free", {}}});
  fold.see(Decision{NodeReplaced{{"train"}, AttemptId{0}, {"n2"}, {"n3"}, "ill"}});
  CHECK(fold.row().nodes == "n1,n3");
}

TEST_CASE("a job may have left processes on a node until that has another agent") {
  Fold fold;
  const JobId job{"train"};
  fold.see(Observation{a_submission()});
  fold.see(Observation{LinkUp{{"n1"}, "boot-1", "agent-1", "", ""}});
  fold.see(Decision{AttemptPlaced{job, AttemptId{0}, {{"n1"}, {"n2"}}, "free", {}}});
  fold.see(Decision{StagingBegun{job, AttemptId{0}}});
  fold.see(Decision{LaunchBegun{job, AttemptId{0}, std::nullopt, ""}});
  fold.see(Decision{StopBegun{job, AttemptId{0}, StopReason::canceled, ""}});
  fold.see(Decision{NodeFenced{job, AttemptId{0}, {"n1"}, FenceProof::none}});
  fold.see(Decision{NodeFenced{job, AttemptId{0}, {"n2"}, FenceProof::lease_expired}});
  CHECK_FALSE(fold.row().unclean);
  fold.see(Decision{AttemptEnded{job, AttemptId{0}, {}, std::nullopt}});
  CHECK(fold.row().unclean);
  fold.see(Observation{LinkUp{{"n1"}, "boot-2", "agent-2", "", ""}});
  CHECK_FALSE(fold.row().unclean);
}

TEST_CASE("a row has the job's tags as JSON, also where there are none") {
  Fold fold;
  JobSubmitted submitted = a_submission();
  submitted.spec.tags = {{"team", "vision"}};
  fold.see(Observation{submitted});
  CHECK(fold.row().tags == R"({"team":"vision"})");
  Fold other;
  other.see(Observation{a_submission()});
  CHECK(other.row().tags == "{}");
}

TEST_CASE("only a job that has not ended has a row here; a resumed one has it again") {
  Fold fold;
  CHECK_FALSE(fold.has_row());
  fold.see(Observation{a_submission()});
  CHECK(fold.has_row());
  fold.see(Decision{JobEnded{{"train"}, JobEndState::canceled, 130, "canceled"}});
  CHECK_FALSE(fold.has_row());
  ResumeRequested resume;
  resume.job = {"train"};
  resume.spec = a_submission().spec;
  resume.target = a_submission().target;
  fold.see(Observation{resume});
  CHECK(fold.row().reason.empty());
  CHECK_FALSE(fold.row().exit_code);
}

}  // namespace
}  // namespace muster
