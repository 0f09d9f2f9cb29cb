// What Azure ML's client refuses in a file that is right for muster; scripts/azure-oracle asks the
// client itself.
#include "templates/azure/azure.h"
#include "tests/catch.h"
#include "tests/templates/files_in_memory.h"

namespace muster {
namespace {

const std::string accepted = "command: x\nenvironment: {image: ubuntu}\n";

std::string refused(const std::string& more, const std::string& head = accepted) {
  const JobFile job = read_job(head + more, sample_project());
  INFO(printed(job.findings));
  CHECK(!has_errors(job.findings));
  return printed(azure_findings(job));
}

struct RefusedRow {
  std::string text;
  const char* says;
};

TEST_CASE("what stands in a file is text where Azure ML takes text alone") {
  const RefusedRow rows[] = {
      {"display_name: 3\n", "Azure ML: display_name: expected text, got '3'; quote it"},
      {"tags: {run: yes}\n", "tags.run: expected text"},
      {"tags: {day: 2024-01-05}\n", "tags.day: expected text"},
      {"properties: {a: 0x10}\n", "properties.a: expected text"},
      {"resources: {shm_size: 4}\n", "resources.shm_size: expected text"},
      {"resources: {instance_type: [a]}\n", "resources.instance_type: expected text, got a list"},
      {"outputs: {o: {name: 3}}\n", "outputs.o.name: expected text"},
      {"limits: {timeout: 24h}\n", "limits.timeout: expected a whole number, got '24h'"},
      {"inputs: {d: 2024-01-05}\n", "inputs.d: a date is no value; quote it"},
  };
  for (const RefusedRow& row : rows) {
    INFO(row.text);
    CHECK_THAT(refused(row.text), ContainsSubstring(row.says));
  }
  for (const char* same :
       {"tags: {run: '3', e: , v: 1.2.3}\n", "limits: {timeout: '60'}\n",
        "environment_variables: {A: 3, B: }\n", "inputs: {a: 3, b: {value: x}}\n",
        "outputs: {o: , p: {mode: RW_MOUNT}}\n",
        "resources: {docker_args: [-v, a], locations: [eastus]}\n",
        "services: {s: {type: tensor_board, log_dir: x, nodes: all}}\n"}) {
    INFO(same);
    CHECK(refused(same) == "");
  }
}

TEST_CASE("there is no null, no key of muster and no old form in Azure ML") {
  const RefusedRow rows[] = {
      {"tags:\n", "tags: expected a value, got nothing"},
      {"limits:\n", "limits: expected a value"},
      {"muster: {priority: 1}\n", "Azure ML: muster: there is no such key"},
      {"limits: {timeout_minutes: 3}\n", "limits.timeout_minutes: there is no such key"},
      {"outputs: {o: {description: x}}\n", "outputs.o.description: there is no such key"},
      {"inputs: {a: {type: string, default: b}}\n", "inputs.a.type: expected uri_folder, "},
      {"distribution: {type: mpi, worker_count: 1}\n", "worker_count: goes with type tensorflow"},
  };
  for (const RefusedRow& row : rows) {
    INFO(row.text);
    CHECK_THAT(refused(row.text), ContainsSubstring(row.says));
    CHECK_THAT(refused(row.text), ContainsSubstring("`muster job render --for azure` writes it"));
  }
}

TEST_CASE("what nobody can write otherwise is refused, with what to put instead") {
  const std::string head = "command: x\n";
  const RefusedRow rows[] = {
      {"", "environment: required; write 'environment: {image: …}'"},
      {"environment: azureml:host\n", "there is no environment 'host'; write"},
      {"environment: azureml:e\n", "'azureml:e' has no version; write azureml:e:VERSION"},
      {"environment: {conda_file: {name: a}}\n", "'image' or 'build' is required"},
      {"environment: {image: u}\ncode: git+https://a/b\n", "git is not taken"},
      {"environment: {image: u}\ncode: azureml:c:1\n", "named by its full id only"},
      {"environment: {image: u}\ninputs: {a.b: 1}\n", "inputs.a.b: expected letters"},
      {"environment: {image: u}\noutputs: {1a: }\n", "outputs.1a: expected letters"},
      {"environment: {image: u}\noutputs: {o: {version: 1}}\n", "goes with 'name' only"},
      {"environment: {image: u}\nidentity: {type: aml_token, client_id: x}\n", "type managed only"},
      {"environment: {image: u}\nidentity: {}\n", "identity: 'type' is required"},
      {"environment: {image: u}\nservices: {s: {type: ssh, log_dir: x}}\n",
       "type tensor_board only"},
      {"environment: {image: u}\nservices: {s: {type: ssh, nodes: '1'}}\n",
       "expected 'all', got '1'"},
  };
  for (const RefusedRow& row : rows) {
    INFO(row.text);
    CHECK_THAT(refused(row.text, head), ContainsSubstring(row.says));
  }
}

}  // namespace
}  // namespace muster
