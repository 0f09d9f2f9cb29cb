#include "templates/cluster/file.h"

#include "tests/catch.h"
#include "tests/templates/files_in_memory.h"

namespace muster {
namespace {

// The built-in ones, and one of four nodes.
const std::vector<ComputeTarget>& lab_targets() {
  static const auto targets = known_targets(
      read_cluster_file("cluster.yml", "compute:\n  lab:\n    nodes: n[01-04]\n", in_project()));
  return targets;
}

std::string findings_for(const std::string& text, const std::string& default_target = "") {
  const ResolvedTarget resolved = resolve_target(read_job(text), lab_targets(), default_target);
  return resolved.target ? "runs on " + resolved.target->name : printed(resolved.findings);
}

const std::string target_head = "command: x\nenvironment: azureml:host\n";

TEST_CASE("this machine is a target as one node and as many, before those of the file") {
  const auto known = known_targets(
      read_cluster_file("c.yml", "compute: {lab: {nodes: a}, far: {nodes: b}}", in_project()));
  std::vector<std::string> names;
  for (const ComputeTarget& target : known) names.push_back(target.name);
  REQUIRE(names == std::vector<std::string>{"local", "local-cluster", "lab", "far"});
  REQUIRE(known[0].nodes.size() == 1);
  CHECK(known[0].nodes[0].id.value == "local");
  CHECK(known[0].nodes[0].transport == TransportKind::local);
  REQUIRE(known[1].nodes.size() == 64);
  CHECK(known[1].nodes[63].id.value == "local-63");
}

TEST_CASE("a job runs on the target it names, on the default, or on this host") {
  CHECK(findings_for(target_head + "compute: azureml:lab") == "runs on lab");
  CHECK(findings_for(target_head, "lab") == "runs on lab");
  CHECK(findings_for(target_head) == "runs on local");
  CHECK(findings_for(target_head + "compute: serverless", "lab") == "runs on lab");
  CHECK(findings_for(target_head + "compute: local-cluster\nresources: {instance_count: 8}") ==
        "runs on local-cluster");
}

TEST_CASE("an unknown target is unresolved, with the nearest name") {
  CHECK(findings_for(target_head + "compute: lap") ==
        "job.yml:3:10: unresolved: compute: there is no target 'lap'; did you mean 'lab'?\n"
        "  compute: lap\n"
        "           ^\n");
  CHECK_THAT(findings_for(target_head + "compute: elsewhere"),
             ContainsSubstring("known are local, local-cluster, lab"));
}

TEST_CASE("more nodes than the target has are an error") {
  CHECK_THAT(findings_for(target_head + "compute: lab\nresources: {instance_count: 5}"),
             ContainsSubstring("error: resources.instance_count: the target 'lab' has 4 nodes"));
  CHECK_THAT(findings_for(target_head + "compute: lab\nresources: {instance_count: 6}\n"
                                        "muster: {nodes: {min: 5}}"),
             ContainsSubstring("error: muster.nodes.min: the target 'lab' has 4 nodes, got 5"));
}

TEST_CASE("fewer nodes than a job may have are a note, fewer than it needs an error") {
  const auto findings = [](const std::string& nodes, const std::string& compute = "lab") {
    const auto job =
        read_job(target_head + "compute: " + compute +
                 "\ndistribution: {type: pytorch}\nresources: {instance_count: 2" + nodes);
    const ResolvedTarget resolved = resolve_target(job, lab_targets(), "");
    CHECK((resolved.target != nullptr) == !has_errors(resolved.findings));
    return printed(resolved.findings);
  };
  CHECK(findings("}\nmuster: {nodes: {max: 4}}") == "");
  CHECK_THAT(findings("}\nmuster: {nodes: {max: 5}}"),
             ContainsSubstring(
                 "job.yml:6:23: note: muster.nodes.max: the target 'lab' has 4 nodes, got 5"));
  CHECK_THAT(findings(", max_instance_count: 5}"), ContainsSubstring("job.yml:5:52: note: "));
  CHECK_THAT(findings("}\nmuster: {nodes: {min: 1, max: 2}}", "local"),
             ContainsSubstring("note: muster.nodes.max: the target 'local' has 1 node, got 2"));
  CHECK_THAT(findings("}\nmuster: {nodes: {max: 4}}", "local"),
             ContainsSubstring("error: resources.instance_count: 'local' is one node, got 2"));
  CHECK_THAT(findings("}\nmuster: {nodes: {max: 4, spares: 1}}"),
             ContainsSubstring("has 0 beside the job's own nodes, got 1"));
}

TEST_CASE("more spares than the target has nodes left are a warning") {
  const auto warnings = [](const std::string& spares) {
    const auto job = read_job(target_head +
                              "compute: lab\nresources: {instance_count: 3}\n"
                              "muster: {nodes: {spares: " +
                              spares + "}}");
    const ResolvedTarget resolved = resolve_target(job, lab_targets(), "");
    return printed(resolved.findings);
  };
  CHECK(warnings("1") == "");
  CHECK_THAT(warnings("2"),
             ContainsSubstring("warning: muster.nodes.spares: the target 'lab' has 1 beside the "
                               "job's own nodes, got 2"));
}

TEST_CASE("the target local takes one node only") {
  CHECK_THAT(findings_for(target_head + "compute: local\nresources: {instance_count: 2}"),
             ContainsSubstring("'local' is one node, got 2; 'compute: local-cluster'"));
}

TEST_CASE("a placement that names a host outside the target is unresolved") {
  CHECK_THAT(findings_for(target_head + "compute: lab\nmuster: {placement: {exclude: 'n[04-05]'}}"),
             ContainsSubstring("the target 'lab' has no node 'n05'; did you mean 'n0"));
}

}  // namespace
}  // namespace muster
