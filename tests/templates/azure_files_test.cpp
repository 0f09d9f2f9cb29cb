// What Azure ML's own client takes, and what `az ml job show -o yaml` prints, is taken here too.
#include "tests/catch.h"
#include "tests/templates/files_in_memory.h"

namespace muster {
namespace {

const std::string sound = "command: x\nenvironment: azureml:host\ncompute: lab\n";

JobFile read_with(const std::string& text) {
  return read_job(sound + text, sample_project());
}

bool has_notes_only(const JobFile& job) {
  return std::ranges::all_of(job.findings,
                             [](const Finding& each) { return each.severity == Severity::note; });
}

std::string only_line(const std::string& text) {
  const JobFile job = read_job(text, sample_project());
  std::string out;
  for (const Finding& each : job.findings) {
    if (each.severity == Severity::error) out += each.message + "; " + each.suggestion + '\n';
  }
  return out;
}

TEST_CASE("docker_args may be a list of words, kept as words") {
  const JobFile job = read_with("resources: {docker_args: ['--ipc=host', -e, \"A=it's b\"]}\n");
  CHECK(printed(job.findings) == "");
  CHECK(job.spec.docker_args == "--ipc=host -e 'A=it'\\''s b'");
  CHECK(read_with("resources: {docker_args: -e 'A b'}\n").spec.docker_args == "-e 'A b'");
}

TEST_CASE("a variable whose name no shell can read is set as it is, with a note") {
  const JobFile job = read_with("environment_variables: {a.b: x, c-d: y}\n");
  CHECK(has_notes_only(job));
  CHECK_THAT(printed(job.findings), ContainsSubstring("a shell cannot read 'a.b'"));
  CHECK(job.spec.environment_variables.at("c-d") == "y");
  for (const char* wrong : {"1a", "a=b", "a b"}) {
    INFO(wrong);
    const std::string text = std::string("environment_variables: {\"") + wrong + "\": x}\n";
    CHECK(has_errors(read_with(text).findings));
  }
}

TEST_CASE("a literal input may stand under `value`") {
  const JobFile job = read_with("inputs: {n: {value: 3}, b: {value: yes}, t: {value: 'yes'}}\n");
  CHECK(printed(job.findings) == "");
  CHECK(job.spec.inputs.at("n").literal == "3");
  CHECK(job.spec.inputs.at("b").literal == "True");
  CHECK(job.spec.inputs.at("t").literal == "yes");
  CHECK(has_errors(read_with("inputs: {n: {value: [3]}}\n").findings));
  CHECK(has_errors(read_with("inputs: {n: {value: 3, path: src}}\n").findings));
}

TEST_CASE("the type of an identity is taken as Azure ML shows it") {
  for (const auto& [shown, kept] :
       std::map<std::string, std::string>{{"UserIdentity", "user_identity"},
                                          {"ManagedIdentity", "managed_identity"},
                                          {"AMLToken", "aml_token"},
                                          {"managed", "managed"},
                                          {"user_identity", "user_identity"}}) {
    INFO(shown);
    const JobFile job = read_with("identity: {type: " + shown + "}\n");
    CHECK(has_notes_only(job));
    CHECK(job.spec.recorded.at("identity.type") == kept);
  }
  CHECK(has_errors(read_with("identity: {type: nobody}\n").findings));
}

TEST_CASE("what Azure ML prints of a job is read again as the job") {
  const std::string id =
      "azureml:/subscriptions/s/resourceGroups/g/providers/Microsoft.M/workspaces/w/";
  const JobFile job = read_job(
      "type: command\ncommand: x ${{inputs.d}}\nstatus: Completed\n"
      "id: " +
      id + "jobs/j\ncode: " + id +
      "codes/c1/versions/4\n"
      "environment: " +
      id +
      "environments/e/versions/2\n"
      "compute: azureml:lab\n"
      "inputs:\n  d: {type: uri_folder, path: '" +
      id +
      "data/cars/versions/3'}\n"
      "  u: {type: uri_file, path: 'azureml:https://a.b/c.csv'}\n"
      "outputs:\n  default: {type: uri_folder, path: 'azureml://datastores/a/paths/x'}\n"
      "services:\n  Studio: {endpoint: 'https://ml.azure.com/x', type: Studio}\n"
      "  Tracking: {endpoint: 'azureml://x', type: Tracking}\n"
      "  mine: {type: vs_code, endpoint: 'https://x', status: Running}\n"
      "creation_context: {created_at: '2024-01-01'}\n");
  CHECK(has_notes_only(job));
  CHECK(job.spec.code == "azureml:c1:4");
  CHECK(job.spec.environment.reference == "azureml:e:2");
  CHECK(job.spec.inputs.at("d").path == "azureml:cars:3");
  CHECK(job.spec.inputs.at("u").path == "https://a.b/c.csv");
  CHECK(job.spec.outputs.empty());
  CHECK(job.spec.services.empty());
}

TEST_CASE("keys that have a meaning on Azure's side only are noted") {
  CHECK(has_notes_only(read_with("inputs: {a: {path: src, path_on_compute: 'file:x'}}\n")));
  CHECK(has_notes_only(
      read_with("outputs: {a: {$schema: x}}\nservices: {s: {type: ssh, $schema: y}}\n")));
  for (const char* file :
       {"name: e\nimage: u\nid: x\nlatest_version: 3\ncreation_context: {a: b}\n",
        "name: d\ntype: uri_folder\npath: src\ndatastore: s\nauto_delete_setting: {a: b}\n",
        "name: c\ntype: amlcompute\nprovisioning_state: Succeeded\ncreated_on: x\n"}) {
    INFO(file);
    CHECK(has_notes_only(read_job(file, sample_project())));
  }
}

TEST_CASE("a kind of file that is not known here is named from its schema") {
  const std::string base = "$schema: https://azuremlschemas.azureedge.net/latest/";
  for (const char* kind : {"schedule", "managedOnlineDeployment", "azureOpenAIConnection"}) {
    INFO(kind);
    const JobFile file = read_job(base + kind + ".schema.json\nname: x\ntrigger: {type: cron}\n");
    CHECK(file.kind == FileKind::unsupported);
    CHECK_THAT(printed(file.findings), ContainsSubstring("files of the kind '" + std::string(kind) +
                                                         "' are not supported"));
  }
  const JobFile typed = read_job(base + "connection.schema.json\nname: x\ntype: s3\n");
  CHECK_THAT(printed(typed.findings), ContainsSubstring("unresolved: $schema: files of the kind"));
  CHECK(read_job(base + "other.schema.json\n" + sound).kind == FileKind::command);
  CHECK(printed(read_job("type: pipeline\ncomponent: azureml:p:1\n").findings).find("error") ==
        std::string::npos);
}

TEST_CASE("one mistake is one line, and the line says how to mend it") {
  CHECK(only_line("comand: x\nenvironment: azureml:host\n") ==
        "unknown key 'comand'; did you mean 'command'?\n");
  CHECK(only_line("command: x\nenvironment: {img: ubuntu}\n") ==
        "unknown key 'img' in 'environment'; did you mean 'image'?\n");
  CHECK(only_line("tag: x\nenvironment: azureml:host\n") ==
        "'command' is required; \nunknown key 'tag'; did you mean 'tags'?\n");
  CHECK_THAT(only_line(sound + "distribution: {type: pytorch, process_count_per_node: 2}\n"),
             ContainsSubstring("did you mean 'process_count_per_instance'?"));
  CHECK_THAT(only_line(sound + "resources: {node_count: 2}\n"),
             ContainsSubstring("did you mean 'instance_count'?"));
  CHECK_THAT(only_line(sound + "process_count_per_node: 2\n"),
             ContainsSubstring("did you mean 'distribution.process_count_per_instance'?"));
  CHECK_THAT(only_line(sound + "gpu_count: 2\n"),
             ContainsSubstring("did you mean 'muster.nodes.gpus'?"));
  CHECK(only_line(sound + "inputs: {a: {type: folder, path: src}}\n") ==
        "inputs.a.type: expected uri_folder, uri_file, mltable, mlflow_model, custom_model or "
        "triton_model, got 'folder'; did you mean 'uri_folder'?\n");
  CHECK(only_line(
            "command: x ${{inputs.lr}}\nenvironment: azureml:host\ninputs: {learning_rate: 1}\n") ==
        "command: '${{inputs.lr}}': there is no such input; there are: learning_rate\n");
  CHECK_THAT(printed(read_job("command: x $[[a]]\nenvironment: azureml:host\n").findings),
             ContainsSubstring("'$[[ ]]' belongs to components"));
}

}  // namespace
}  // namespace muster
