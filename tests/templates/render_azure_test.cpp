#include "templates/parse_file.h"

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
  const std::string rendered = render_for_azure(job);
  CHECK(rendered == R"(command: |
  echo one
  echo "two: 2"
environment: "azureml:host"
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
  const std::string rendered = render_for_azure(job);
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
  const JobFile again = read_job(render_for_azure(job));
  INFO(render_for_azure(job) << printed(again.findings));
  CHECK(!has_errors(again.findings));
  CHECK(again.spec.command == job.spec.command);
  CHECK(again.spec.tags == job.spec.tags);
  CHECK(again.spec.inputs.at("flag").literal == "True");
  CHECK(again.spec.inputs.at("text").literal == "true");
  CHECK(again.spec.inputs.at("multi").literal == "x\n\n");
  CHECK(again.spec.muster.restart.attempts == 0);
  CHECK(again.spec.muster.resume_argument == job.spec.muster.resume_argument);
}

TEST_CASE("a file that does not parse renders as nothing") {
  CHECK(render_for_azure(read_job("a: [")) == "");
}

}  // namespace
}  // namespace muster
