// What `plan` works out of a job and a target.
#include "cli/job/plan.h"

#include <nlohmann/json.hpp>

#include "launcher/controller/store/store.h"
#include "tests/catch.h"
#include "tests/cli/folder.h"

using namespace muster;

namespace {

JobSpec a_spec(int least, int count, int most) {
  JobSpec spec;
  spec.distribution.type = DistributionType::pytorch;
  spec.distribution.processes_per_node = 2;
  spec.instance_count = count;
  spec.muster.nodes_min = least;
  spec.muster.nodes_max = most;
  return spec;
}

JobPlan plan_of(const JobSpec& spec, int nodes, const UnavailableNodes& unavailable = {}) {
  ComputeTarget target;
  target.name = "lab";
  for (int i = 1; i <= nodes; ++i) {
    target.nodes.emplace_back();
    target.nodes.back().id = NodeId{"n" + std::to_string(i)};
  }
  auto plan = make_plan(spec, target, unavailable);
  REQUIRE(plan);
  return *plan;
}

ComputeTarget with_floor() {
  ComputeTarget target;
  target.name = "lab";
  target.health.emplace();
  target.health->floors["cpu_gemm_gflops"] = 100;
  return target;
}

JobFile a_job(HealthLevel start, const std::string& failure = "") {
  JobFile job;
  job.spec.muster.health_start = start;
  if (!failure.empty()) job.spec.muster.other["health.failure"] = failure;
  return job;
}

std::string said_of_gate(const JobFile& job, const ComputeTarget& target) {
  std::string text;
  for (const Finding& one : gate_findings(job, target)) {
    text += std::string(severity_name(one.severity)) + ": " + one.message;
  }
  return text;
}

std::string after_failure(HealthLevel start, const std::string& failure,
                          const ComputeTarget& target) {
  return measured_after_failure(a_job(start, failure).spec, target);
}

}  // namespace

TEST_CASE("a job with a fixed number of nodes is planned for these") {
  const JobPlan plan = plan_of(a_spec(2, 2, 2), 5);
  CHECK(plan.placed == 2);
  CHECK(plan.ranks.size() == 4);
  CHECK(rank_count(plan.spec, {}) == 4);
}

TEST_CASE("a job with between min and max nodes is planned for as many as there are") {
  CHECK(plan_of(a_spec(2, 2, 4), 3).placed == 3);
  CHECK(plan_of(a_spec(2, 2, 4), 3).ranks.size() == 6);
  CHECK(plan_of(a_spec(2, 3, 4), 9).placed == 4);
  JobSpec spec = a_spec(2, 3, 4);
  spec.muster.exclude_nodes = {"n1", "n2"};
  CHECK(plan_of(spec, 4).placed == 2);
  CHECK(plan_of(spec, 3).placed == 2);  // it waits: a second one is not there
}

TEST_CASE("nodes that are drained or down are planned without, and named with the reason") {
  const UnavailableNodes out{{NodeId{"n1"}, "n1 is drained: fan"}, {NodeId{"n9"}, "n9 is down"}};
  const JobPlan plan = plan_of(a_spec(2, 2, 4), 3, out);
  CHECK(plan.nodes == std::vector{NodeId{"n2"}, NodeId{"n3"}});
  CHECK(plan.unavailable == std::vector{NodeId{"n1"}});
  CHECK(plan.placed == 2);
  const Document document = plan_document(plan, out);
  CHECK(document["eligible_nodes"].dump() == R"(["n2","n3"])");
  CHECK(document["unavailable_nodes"].dump() == R"([{"node":"n1","why":"n1 is drained: fan"}])");
  CHECK(document["ranks"][0]["node"] == "n2");
}

TEST_CASE("how many ranks it has is known once its nodes are") {
  const JobSpec spec = a_spec(2, 2, 4);
  CHECK_FALSE(rank_count(spec, {}));
  CHECK(rank_count(spec, {2, 2, 2}) == 6);
}

TEST_CASE("the ranks of a node are those of all its places in an attempt") {
  const JobSpec spec = a_spec(2, 2, 3);
  AttemptSummary attempt;
  attempt.nodes = {NodeId{"n1"}, NodeId{"n2"}, NodeId{"n3"}};
  CHECK(ranks_of_node(spec, attempt, NodeId{"n3"}) == std::set<RankId>{RankId{4}, RankId{5}});
  attempt.nodes = {NodeId{"n1"}, NodeId{"n2"}, NodeId{"n3"}, NodeId{"n2"}};
  attempt.processes = {2, 1, 2, 1};
  CHECK(ranks_of_node(spec, attempt, NodeId{"n3"}) == std::set<RankId>{RankId{3}, RankId{4}});
  CHECK(ranks_of_node(spec, attempt, NodeId{"n2"}) == std::set<RankId>{RankId{2}, RankId{5}});
  CHECK(ranks_of_node(spec, attempt, NodeId{"n4"}).empty());
}

TEST_CASE("a node says why it would get no job now") {
  NodeLine node;
  node.node = "h02";
  node.link = "up";
  CHECK(why_unavailable(node) == "");
  node.link = "not connected";
  CHECK(why_unavailable(node) == "");
  node.link = "down: connection refused";
  CHECK(why_unavailable(node) == "h02 is down: connection refused");
  node.set_aside = "broke 3 jobs";
  CHECK(why_unavailable(node) == "h02 is cordoned: broke 3 jobs");
  node.remedy = "is rebooting";
  CHECK(why_unavailable(node) == "h02 is rebooting");
  node.unfit = NodeFault{};
  node.unfit_reason = "gpu.count";
  CHECK(why_unavailable(node) == "h02 is drained by a health check: gpu.count");
  node.drained = true;
  CHECK(why_unavailable(node) == "h02 is drained");
  node.drain_reason = "fan";
  CHECK(why_unavailable(node) == "h02 is drained: fan");
}

TEST_CASE("without a controller the journal says which nodes are drained") {
  Folder home;
  CHECK(unavailable_nodes({home.path() / "none"}).empty());
  auto store = Store::open(home.path(), Store::Mode::read_write);
  REQUIRE(store);
  const auto drain = [&](const char* node, bool drained) {
    NodeDrainSet set;
    set.node = NodeId{node};
    set.drained = drained;
    set.reason = "fan";
    REQUIRE((*store)->append({{from_ms(1000), Observation{set}}}, {}));
  };
  drain("h01", true);
  drain("h02", true);
  drain("h02", false);
  const UnavailableNodes nodes = unavailable_nodes({home.path()});
  REQUIRE(nodes.size() == 1);
  CHECK_THAT(nodes.at(NodeId{"h01"}), ContainsSubstring("fan"));
}

TEST_CASE("full that a job asks for and that adds nothing is a warning which says why") {
  ComputeTarget bare;
  bare.name = "lab";
  const std::string none = "full adds nothing to quick: the health profile of lab has no minimum";
  CHECK_THAT(said_of_gate(a_job(HealthLevel::full), bare),
             ContainsSubstring("warning: muster.health.start: " + none));
  CHECK_THAT(said_of_gate(a_job(HealthLevel::quick, "full"), bare),
             ContainsSubstring("warning: muster.health.failure: " + none));
  CHECK(said_of_gate(a_job(HealthLevel::off, "full"), with_floor()) ==
        "warning: muster.health.failure: full adds nothing to quick: the gate measures, and "
        "muster.health.start is off");
  for (const char* failure : {"", "quick", "off"}) {
    CHECK(said_of_gate(a_job(HealthLevel::quick, failure), bare).empty());
    CHECK(said_of_gate(a_job(HealthLevel::off, failure), bare).empty());
  }
  CHECK(said_of_gate(a_job(HealthLevel::quick, "full"), with_floor()).empty());
}

TEST_CASE("a path to resume from that nodes would see, and that is not there, is an error") {
  JobFile job;
  job.spec.muster.resume_path = "/absent/model";
  ComputeTarget target;
  target.name = "lab";
  target.nodes.emplace_back();
  target.nodes.back().transport = TransportKind::ssh;
  CHECK(resume_findings(job, target).empty());  // only its nodes know
  target.shared_root = "/absent";
  REQUIRE(resume_findings(job, target).size() == 1);
  CHECK_THAT(resume_findings(job, target)[0].message,
             ContainsSubstring("muster.resume.from: /absent/model does not exist"));
}

TEST_CASE("how long a start waits for a gate that measures is a note") {
  CHECK(said_of_gate(a_job(HealthLevel::full), with_floor()) ==
        "note: muster.health.start: before ranks start each node is measured, unless it was in "
        "the last 12 h: cpu: about 5.0s, 30s at most");
}

TEST_CASE("what comes after a failure is said where the gate measures then") {
  const std::string text =
      "after an attempt that failed its nodes are measured before the next: cpu: about 5.0s, 30s "
      "at most";
  for (const HealthLevel start : {HealthLevel::quick, HealthLevel::full}) {
    CHECK(after_failure(start, "full", with_floor()) == text);
    CHECK(after_failure(start, "quick", with_floor()).empty());
    CHECK(after_failure(start, "", with_floor()).empty());
    CHECK(after_failure(start, "full", {}).empty());
  }
  CHECK(after_failure(HealthLevel::off, "full", with_floor()).empty());
}
