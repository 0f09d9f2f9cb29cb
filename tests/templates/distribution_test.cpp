// How many processes a job has, by every spelling of its distribution.
#include "tests/catch.h"
#include "tests/templates/files_in_memory.h"

namespace muster {
namespace {

JobFile job_with(const std::string& distribution) {
  return read_job(
      "command: x\nenvironment: azureml:host\ncompute: lab\n"
      "resources: {instance_count: 4}\ndistribution: {" +
      distribution + "}\n");
}

TEST_CASE("a total over all nodes is divided by the nodes, or refused") {
  const JobFile even = job_with("type: pytorch, process_count: 12");
  CHECK(even.spec.distribution.processes_per_node == 3);
  CHECK(!has_errors(even.findings));
  CHECK(job_with("type: mpi, worker_count: 8").spec.distribution.processes_per_node == 2);
  const JobFile odd = job_with("type: pytorch, process_count: 10");
  CHECK_THAT(printed(odd.findings),
             ContainsSubstring("expected a multiple of resources.instance_count (4), got 10"));
  CHECK(job_with("type: pytorch, process_count: 12, process_count_per_instance: 5")
            .spec.distribution.processes_per_node == 5);
}

TEST_CASE("mpi without a count has one process on each node, and says so; pytorch says nothing") {
  const JobFile mpi = job_with("type: mpi");
  CHECK(mpi.spec.distribution.processes_per_node == 1);
  CHECK_THAT(printed(mpi.findings), ContainsSubstring("warning: distribution: no "
                                                      "'process_count_per_instance': 1 process"));
  CHECK(printed(job_with("type: pytorch").findings) == "");
  CHECK(job_with("type: pytorch, process_count_per_instance: 4096")
            .spec.distribution.processes_per_node == 4096);
  CHECK_THAT(printed(job_with("type: pytorch, process_count_per_instance: 4097").findings),
             ContainsSubstring("expected at most 4096, got 4097"));
}

TEST_CASE("tensorflow has a worker on each node unless told, and at most a server on each") {
  const Distribution usual = job_with("type: tensorflow").spec.distribution;
  CHECK(usual.worker_count == 4);
  CHECK(usual.parameter_server_count == 0);
  const JobFile told = job_with("type: tensorflow, worker_count: 3, parameter_server_count: 4");
  CHECK(told.spec.distribution.worker_count == 3);
  CHECK(told.spec.distribution.parameter_server_count == 4);
  CHECK(!has_errors(told.findings));
  CHECK_THAT(printed(job_with("type: tensorflow, parameter_server_count: 5").findings),
             ContainsSubstring("expected at most one on each node (4), got 5"));
}

TEST_CASE("a key of another type is refused by naming the types that have it") {
  const JobFile file = job_with("type: tensorflow, process_count_per_instance: 2, port: 1");
  CHECK_THAT(printed(file.findings),
             ContainsSubstring("error: distribution.process_count_per_instance: does not fit this "
                               "type; it goes with type pytorch or mpi"));
  CHECK_THAT(printed(file.findings), ContainsSubstring("it goes with type ray"));
  CHECK(printed(file.findings).find("belongs under") == std::string::npos);
  const JobFile sweep = read_job("command: x\ncompute: lab\nlimits: {max_total_trials: 3}\n");
  CHECK_THAT(printed(sweep.findings), ContainsSubstring("unknown key 'max_total_trials'"));
  CHECK_THAT(printed(sweep.findings), !ContainsSubstring("it belongs under 'limits'"));
}

TEST_CASE("what ray is told is recorded as it stands") {
  const JobFile ray = job_with(
      "type: ray, port: 6379, dashboard_port: 8265, address: h:1, "
      "include_dashboard: no, head_node_additional_args: --a");
  CHECK(!has_errors(ray.findings));
  CHECK(ray.spec.recorded.at("distribution.port") == "6379");
  CHECK(ray.spec.recorded.at("distribution.dashboard_port") == "8265");
  CHECK(ray.spec.recorded.at("distribution.address") == "h:1");
  CHECK(ray.spec.recorded.at("distribution.include_dashboard") == "false");
  CHECK(ray.spec.recorded.at("distribution.head_node_additional_args") == "--a");
  CHECK(ray.spec.recorded.count("distribution.worker_node_additional_args") == 0);
  CHECK_THAT(printed(cannot_run_yet(ray)),
             ContainsSubstring("no cluster is started: the command runs on each of the"));
  CHECK(printed(cannot_run_yet(job_with("type: ray, port: 6379"))) == "");
}

TEST_CASE("words for ray have their quotes closed") {
  const auto findings_of = [](const std::string& words) {
    return printed(read_job("command: x\nenvironment: azureml:host\ncompute: lab\ndistribution:\n"
                            "  type: ray\n  worker_node_additional_args: >-\n    " +
                            words + "\n")
                       .findings);
  };
  for (const std::string open : {"--a='b", "--a=\"b", "--a \"b\\\"", "--a 'b\"", "--a b\\"}) {
    CHECK_THAT(findings_of(open), ContainsSubstring("worker_node_additional_args: a quote is not"));
  }
  for (const std::string whole :
       {"--a='b\"'", "--a \\'", "--a \"it's\"", "--a 'b\\'", "--a \"\\\"\""}) {
    CHECK_THAT(findings_of(whole), !ContainsSubstring("a quote is not"));
  }
}

}  // namespace
}  // namespace muster
