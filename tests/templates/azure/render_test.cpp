#include "templates/azure/azure.h"

#include "tests/catch.h"
#include "tests/templates/files_in_memory.h"

namespace muster {
namespace {

TEST_CASE("rendering for Azure turns the settings into properties") {
  const JobFile job = read_job(R"(# a comment
command: |
  echo one
  echo "two: 2"
environment: azureml:host
compute: lab
properties: {owner: me}
muster:
  nodes: {spares: 1}
  placement: {labels: [a, b], include: "n[01-02]"}
  rules: [{when: {exit_code: 3}, action: retry}]
)");
  CHECK(printed(job.findings) == "");
  const std::string rendered = render_for_azure(job).text;
  CHECK(rendered == R"(command: |
  echo one
  echo "two: 2"
environment: "azureml:host@latest"
compute: lab
properties:
  owner: me
  muster.nodes.spares: "1"
  muster.placement.labels: "a,b"
  muster.placement.include: "n[01-02]"
  muster.rules: "[{\"when\": {\"exit_code\": 3}, \"action\": \"retry\"}]"
)");
}

TEST_CASE("the bounds of the nodes are properties on Azure, which grows no job by itself") {
  const std::string head =
      "command: x\nenvironment: azureml:host\ncompute: lab\ndistribution: {type: pytorch}\n";
  const JobFile job = read_job(head +
                               "resources: {instance_count: 2, max_instance_count: 4}\n"
                               "muster: {nodes: {min: 1}}\n");
  CHECK(printed(job.findings) == "");
  const std::string rendered = render_for_azure(job).text;
  CHECK_THAT(rendered, ContainsSubstring("max_instance_count: 4"));
  CHECK_THAT(rendered, ContainsSubstring("muster.nodes.min: \"1\""));
  const JobFile again = read_job(rendered);
  CHECK(printed(again.findings) == "");
  CHECK(again.spec.muster.nodes_min == 1);
  CHECK(again.spec.muster.nodes_max == 4);
}

TEST_CASE("a rendered file means the same as the file it was made from") {
  const JobFile job = read_job(
      "command: |-\n  a\n\n   b: c\nenvironment: azureml:host\ncompute: lab\n"
      "tags: {number: '1', yes: \"on\", empty: '', odd: \"a\\tb\\\"\\\\ \xC3\xA9\", null: x}\n"
      "inputs: {flag: true, text: 'true', multi: \"x\\n\\n\"}\n"
      "muster: {restart: {attempts: 0}, resume: {argument: '--resume {checkpoint}, x'}}\n");
  REQUIRE(!has_errors(job.findings));
  const JobFile again = read_job(render_for_azure(job).text);
  INFO(render_for_azure(job).text << printed(again.findings));
  CHECK(!has_errors(again.findings));
  CHECK(again.spec.command == job.spec.command);
  CHECK(again.spec.tags == job.spec.tags);
  CHECK(again.spec.inputs.at("flag").literal == "True");
  CHECK(again.spec.inputs.at("text").literal == "true");
  CHECK(again.spec.inputs.at("multi").literal == "x\n\n");
  CHECK(again.spec.muster.restart.attempts == 0);
  CHECK(again.spec.muster.resume_argument == job.spec.muster.resume_argument);
}

TEST_CASE("old forms, durations and nulls are written as Azure ML takes them") {
  const JobFile job = read_job(
      "command: x\nenvironment: azureml:e\ntags:\n"
      "compute: {target: lab, instance_count: 2}\ncode: {local_path: src}\n"
      "resources: {shm_size: 4, instance_type: [a], locations: eastus}\n"
      "limits: {timeout_minutes: 5}\n"
      "distribution: {type: PyTorch, process_count: 8}\n"
      "inputs:\n  lit: {type: string, default: yes}\n  old: {folder: data, mode: mount}\n"
      "  one: {path: data/one.csv}\n  day: 2024-01-05\n"
      "outputs: {o: {mode: rw-mount, description: d}, default: {type: uri_folder}}\n"
      "services: {b: {job_service_type: tensorboard, nodes: 0, properties: {logDir: l}}, "
      "Studio: {type: Studio, endpoint: e}}\n"
      "identity: {type: user-identity}\n",
      sample_project());
  INFO(printed(job.findings));
  const AzureFile rendered = render_for_azure(job);
  CHECK(printed(rendered.findings) == "");
  CHECK(rendered.text == R"(command: x
environment: "azureml:e@latest"
compute: lab
code: src
resources:
  shm_size: "4"
  instance_type: a
  locations:
    - eastus
  instance_count: 2
limits:
  timeout: 300
distribution:
  type: pytorch
  process_count_per_instance: 4
inputs:
  lit: "True"
  old:
    mode: ro_mount
    path: data
    type: uri_folder
  one:
    path: data/one.csv
    type: uri_file
  day: "2024-01-05"
outputs:
  o:
    mode: rw_mount
services:
  b:
    properties: {}
    type: tensor_board
    log_dir: l
identity:
  type: user_identity
)");
  const JobFile again = read_job(rendered.text, sample_project());
  CHECK(!has_errors(again.findings));
  CHECK(again.spec.instance_count == 2);
  CHECK(again.spec.distribution.processes_per_node == 4);
}

TEST_CASE(
    "what Azure ML would refuse all the same is said, and an environment that is to be made") {
  const auto left = [](const std::string& text) {
    return printed(render_for_azure(read_job(text)).findings);
  };
  CHECK_THAT(left("command: x\n"),
             ContainsSubstring("warning: Azure ML: environment: 'host' has to"));
  CHECK_THAT(left("command: x\nenvironment: {image: u}\ncode: git+https://a/b\n"),
             ContainsSubstring("git is not taken"));
}

TEST_CASE("a file that does not parse renders as nothing") {
  CHECK(render_for_azure(read_job("a: [")).text == "");
}

}  // namespace
}  // namespace muster
