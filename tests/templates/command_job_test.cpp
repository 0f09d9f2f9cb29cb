#include "templates/parse_file.h"

#include "tests/catch.h"
#include "tests/templates/files_in_memory.h"

namespace muster {
namespace {

const std::string job_head = "command: true\nenvironment: azureml:host\ncompute: local\n";

// The spec of a job that must have no errors.
JobSpec spec_of(const std::string& text, const ReadOptions& options = in_project()) {
  const JobFile job = read_job(text, options);
  INFO(printed(job.findings));
  CHECK(!has_errors(job.findings));
  return job.spec;
}

std::string findings_of(const std::string& text, const ReadOptions& options = in_project()) {
  return printed(read_job(text, options).findings);
}

TEST_CASE("a minimal command job has no findings and every default") {
  const JobFile job = read_job(job_head);
  CHECK(printed(job.findings) == "");
  CHECK(job.kind == FileKind::command);
  CHECK(job.spec.command == "true");
  CHECK(job.spec.compute == "local");
  CHECK(job.spec.instance_count == 1);
  CHECK(job.spec.shm_size == "2g");
  CHECK(job.spec.experiment_name == "project");
  CHECK(job.spec.muster.restart.attempts == 3);
  CHECK(job.spec.distribution.type == DistributionType::none);
  CHECK(job.spec.distribution.processes_per_node == 1);
  CHECK(cannot_run_yet(job).empty());
}

TEST_CASE("a file beside the job file that no node gets is warned of") {
  const auto said = [](const std::string& command, const std::string& more = "") {
    return findings_of(
        "command: " + command + "\nenvironment: azureml:host\ncompute: local\n" + more,
        in_project({{"/project/train.sh", ""}, {"/project/src/", ""}}));
  };
  CHECK_THAT(said("./train.sh --lr 1"), ContainsSubstring("warning: command: './train.sh' gets to "
                                                          "the nodes only with 'code: .'"));
  CHECK_THAT(said("bash -e train.sh"), ContainsSubstring("'train.sh' gets to the nodes"));
  CHECK(said("./train.sh", "code: ./src\n") == "");
  CHECK(said("/project/train.sh") == "");
  CHECK(said("./other.sh") == "");
}

TEST_CASE("an unknown key is an error with the line, a caret and a suggestion") {
  CHECK(findings_of(job_head + "resources:\n  instance_cout: 2\n") ==
        "job.yml:5:3: error: unknown key 'instance_cout' in 'resources'; "
        "did you mean 'instance_count'?\n"
        "    instance_cout: 2\n"
        "    ^\n");
}

TEST_CASE("a variable that is longer than the kernel passes on is an error") {
  const auto findings_with = [](std::size_t bytes) {
    const std::string text(bytes, 'x');
    return findings_of(job_head + "environment_variables: {BIG: " + text + "}\n");
  };
  CHECK_THAT(findings_with(131072 - 4), ContainsSubstring("has 131068 bytes: the kernel"));
  CHECK_THAT(findings_with(131072 - 5), !ContainsSubstring("the kernel"));
}

TEST_CASE("every key of a command job reaches the JobSpec") {
  const ReadOptions options = in_project({{"/project/src/", ""}, {"/project/data/", ""}});
  const JobSpec spec = spec_of(R"(
name: run_1
display_name: Run
description: text
experiment_name: vision
parent_job_name: parent
tags: {team: vision, year: 2024, none: }
properties: {owner: me}
command: echo hi
code: ./src
environment: {image: "python:3.11", conda_file: {dependencies: [python]}}
environment_variables: {A: "1", B: 1e-4, C: yes}
distribution: {type: pytorch, process_count_per_instance: 8}
compute: azureml:lab
resources:
  instance_count: 2
  instance_type: [Standard_ND96, other]
  shm_size: 1g
  docker_args: --privileged
  max_instance_count: 4
limits: {timeout: 90}
inputs: {data: {path: ./data, mode: download, type: uri_folder}, rate: 1e-4}
outputs: {model: {mode: upload, type: mlflow_model, path: ./out, name: m, version: 7}}
queue_settings: {job_tier: spot, priority: low}
services: {s: {type: custom, port: 80, nodes: 1, log_dir: ./l}}
identity: {type: managed, client_id: c}
)",
                               options);
  CHECK(spec.name == "run_1");
  CHECK(spec.display_name == "Run");
  CHECK(spec.description == "text");
  CHECK(spec.experiment_name == "vision");
  CHECK(spec.recorded.at("parent_job_name") == "parent");
  CHECK(spec.tags ==
        std::map<std::string, std::string>{{"team", "vision"}, {"year", "2024"}, {"none", ""}});
  CHECK(spec.properties.at("owner") == "me");
  CHECK(spec.code == "/project/src");
  CHECK(spec.environment.image == "python:3.11");
  CHECK(spec.environment.conda_file == "dependencies:\n  - python\n");
  CHECK(spec.environment_variables ==
        std::map<std::string, std::string>{{"A", "1"}, {"B", "1e-4"}, {"C", "yes"}});
  CHECK(spec.distribution.type == DistributionType::pytorch);
  CHECK(spec.distribution.processes_per_node == 8);
  CHECK(spec.compute == "lab");
  CHECK(spec.instance_count == 2);
  CHECK(spec.muster.nodes_min == 2);
  CHECK(spec.muster.nodes_max == 4);
  CHECK(spec.instance_types == std::vector<std::string>{"Standard_ND96", "other"});
  CHECK(spec.shm_size == "1g");
  CHECK(spec.docker_args == "--privileged");
  CHECK(spec.timeout == Seconds{90});
  CHECK(spec.inputs.at("data").path == "/project/data");
  CHECK(spec.inputs.at("data").path_kind == PathKind::local);
  CHECK(spec.inputs.at("data").mode == InputMode::download);
  CHECK(spec.inputs.at("rate").is_literal);
  CHECK(spec.inputs.at("rate").literal == "1e-4");
  CHECK(spec.outputs.at("model").mode == OutputMode::upload);
  CHECK(spec.outputs.at("model").type == DataType::mlflow_model);
  CHECK(spec.outputs.at("model").path == "/project/out");
  CHECK(spec.outputs.at("model").asset_name == "m");
  CHECK(spec.outputs.at("model").asset_version == "7");
  CHECK(spec.recorded.at("queue_settings.job_tier") == "spot");
  CHECK(spec.muster.preemptible);
  CHECK(spec.muster.priority == -100);
  CHECK(spec.services.at("s").type == "custom");
  CHECK(spec.services.at("s").port == 80);
  CHECK(spec.services.at("s").nodes == "1");
  CHECK(spec.services.at("s").log_dir == "./l");
  CHECK(spec.recorded.at("identity.type") == "managed");
  CHECK(spec.recorded.at("identity.client_id") == "c");
}

TEST_CASE("a service runs on node 0, on the one it names, or on all") {
  const auto services = [](const std::string& text) {
    return spec_of(job_head + "resources: {instance_count: 3}\ndistribution: {type: pytorch}\n" +
                   "services: {s: {type: jupyter_lab" + text + "}}\n")
        .services.at("s");
  };
  CHECK(services("").runs_on(0));
  CHECK_FALSE(services("").runs_on(1));
  CHECK(services(", nodes: ALL").runs_on(2));
  CHECK(services(", nodes: 01").runs_on(1));
  CHECK_FALSE(services(", nodes: 1").runs_on(0));
}

TEST_CASE("a group of settings is found for a word that is nearly its name") {
  CHECK_THAT(findings_of(job_head + "muster: {node: 2}\n"),
             ContainsSubstring("did you mean 'muster.nodes'?"));
}

TEST_CASE("services that cannot be started or named are errors") {
  const auto with = [](const std::string& text) {
    return findings_of(job_head + "services: {" + text + "}\n");
  };
  CHECK_THAT(with("s: {type: custom}"), ContainsSubstring("'properties.command', or the 'port'"));
  CHECK(with("s: {type: custom, properties: {command: run me}}").empty());
  CHECK(with("my_lab-2: {type: jupyter_lab}").empty());
  CHECK_THAT(with("s: {type: custom, properties: {command: a, comand: b}}"),
             ContainsSubstring("unknown key 'comand'"));
  for (const char* name : {"../s", "8888", "a.b", "-x", "'a b'"}) {
    CHECK_THAT(with(std::string(name) + ": {type: jupyter_lab}"),
               ContainsSubstring("a service's name is a letter and"));
  }
  CHECK_THAT(with(std::string(41, 'a') + ": {type: ssh}"), ContainsSubstring("at most 39"));
  const std::string far = job_head + "services: {s: {type: ssh, nodes: 1}}\n";
  CHECK_THAT(printed(cannot_run_yet(read_job(far))), ContainsSubstring("the job has no node 1"));
}

TEST_CASE("a job has between min and max nodes; what is not given is the instance count") {
  const std::string torch = job_head + "distribution: {type: pytorch}\n";
  const auto range = [&](const std::string& text) {
    const JobSpec spec = spec_of(torch + text);
    return std::pair{spec.muster.nodes_min, spec.muster.nodes_max};
  };
  CHECK(range("") == std::pair{1, 1});
  CHECK(range("resources: {instance_count: 3}\nmuster: {nodes: {min: 2}}") == std::pair{2, 3});
  CHECK(range("resources: {instance_count: 3}\nmuster: {nodes: {max: 5}}") == std::pair{3, 5});
  CHECK(range("resources: {instance_count: 3, max_instance_count: 4}") == std::pair{3, 4});
  CHECK(range("resources: {max_instance_count: 4}\nproperties: {muster.nodes.max: 4}") ==
        std::pair{1, 4});
  CHECK(cannot_run_yet(read_job(torch + "muster: {nodes: {max: 2}}")).empty());
}

TEST_CASE("bounds of the nodes that do not hold the instance count are errors, with the cure") {
  CHECK_THAT(findings_of(job_head + "muster: {nodes: {min: 2, max: 4}}"),
             ContainsSubstring("job.yml:4:23: error: muster.nodes.min: expected at most "
                               "resources.instance_count (1), got 2; write a "
                               "resources.instance_count that is not below"));
  CHECK_THAT(findings_of(job_head + "resources: {instance_count: 3}\n"
                                    "properties: {muster.nodes.max: 2}"),
             ContainsSubstring("job.yml:5:32: error: muster.nodes.max: expected at least "
                               "resources.instance_count (3), got 2"));
  const std::string crossed =
      findings_of(job_head + "resources: {instance_count: 2}\nmuster: {nodes: {min: 4, max: 2}}");
  CHECK_THAT(crossed, ContainsSubstring("muster.nodes.min: expected at most muster.nodes.max (2), "
                                        "got 4"));
  CHECK_THAT(crossed, !ContainsSubstring("instance_count that"));
  CHECK_THAT(findings_of(job_head + "muster: {nodes: {min: 0}}"),
             ContainsSubstring("muster.nodes.min: expected"));
  CHECK_THAT(
      findings_of(job_head + "resources: {max_instance_count: 3}\nmuster: {nodes: {max: 4}}"),
      ContainsSubstring("muster.nodes.max: resources.max_instance_count says '3', got '4'; "
                        "keep one of the two"));
}

TEST_CASE("only ranks that meet by torch's variables may come and go") {
  std::string mode = "live";
  const auto refusal = [&](const std::string& text) {
    return printed(cannot_run_yet(read_job("command: x\nenvironment: azureml:host\n" + text +
                                           "muster: {nodes: {max: 4}, elastic: {mode: " + mode +
                                           "}}\n")));
  };
  CHECK(refusal("distribution: {type: pytorch}\n") == "");
  CHECK_THAT(refusal("distribution: {type: mpi, process_count_per_instance: 1}\n"),
             ContainsSubstring("'distribution.type: mpi' runs on a fixed number of nodes, got 1 to "
                               "4; write 'distribution: {type: pytorch}', or leave"));
  CHECK_THAT(refusal("distribution: {type: tensorflow}\n"), ContainsSubstring("tensorflow"));
  CHECK_THAT(refusal(""), ContainsSubstring("job.yml:3:23: unresolved: a job without "
                                            "'distribution' runs on a fixed number"));
  mode = "restart";
  CHECK(refusal("distribution: {type: mpi, process_count_per_instance: 1}\n") == "");
  CHECK_THAT(refusal(""), ContainsSubstring("runs on a fixed number"));
}

TEST_CASE("a program gets other nodes with its next attempt, but for muster-train") {
  const auto mode_of = [](const std::string& command, const std::string& elastic = "") {
    return read_job("command: " + command + "\nenvironment: azureml:host\n" +
                    "distribution: {type: pytorch}\nmuster: {nodes: {max: 4}" + elastic + "}\n")
        .spec.muster.elastic.mode;
  };
  CHECK(mode_of("python train.py") == ElasticMode::restart);
  CHECK(mode_of("muster-train --data x") == ElasticMode::live);
  CHECK(mode_of("python train.py", ", elastic: {mode: live}") == ElasticMode::live);
  CHECK(mode_of("muster-train --data x", ", elastic: {mode: restart}") == ElasticMode::restart);
}

TEST_CASE("numbers may be quoted or end in .0, and booleans are any word of YAML 1.1") {
  const JobSpec spec = spec_of(job_head +
                               "resources: {instance_count: '3'}\n"
                               "distribution: {type: PyTorch, process_count_per_instance: 2.0}\n"
                               "muster: {preemptible: On, reschedule: {unlimited: 'yes'}}\n");
  CHECK(spec.instance_count == 3);
  CHECK(spec.distribution.processes_per_node == 2);
  CHECK(spec.muster.preemptible);
  CHECK(spec.muster.reschedule.unlimited);
}

TEST_CASE("a wrong type names what was expected and what was found") {
  CHECK_THAT(findings_of(job_head + "resources: {instance_count: [2]}"),
             ContainsSubstring("resources.instance_count: expected an integer, got a list"));
  CHECK_THAT(findings_of(job_head + "resources: many"),
             ContainsSubstring("resources: expected a map, got 'many'"));
  CHECK_THAT(findings_of(job_head + "tags: {a: {b: c}}"),
             ContainsSubstring("tags.a: expected text, got a map"));
  CHECK_THAT(findings_of("[a]"), ContainsSubstring("expected a map of keys"));
}

TEST_CASE("literals and placeholders of data take the place of expressions in the command") {
  const ReadOptions options = in_project({{"/project/data/", ""}});
  const JobSpec spec = spec_of(
      "command: x ${{inputs.n}} ${{ inputs.flag }} ${{inputs.word}} ${{inputs.data}} "
      "${{inputs.uri}} ${{outputs.o}} $RANK $(id) *\n"
      "environment: azureml:host\ncompute: local\n"
      "inputs: {n: 3e-4, flag: true, word: 'true', data: {path: data},\n"
      "  uri: {path: 'https://x/y', mode: direct}}\noutputs: {o: }\n",
      options);
  CHECK(spec.command ==
        "x 3e-4 True true \x01inputs.data\x02 https://x/y \x01outputs.o\x02 $RANK $(id) *");
}

TEST_CASE("the job's name fills the paths of outputs, also when it is given later") {
  const std::string text = job_head + "outputs: {o: {path: './out/${{name}}/${{output_name}}'}}\n";
  CHECK(spec_of("name: mine\n" + text).outputs.at("o").path == "/project/out/mine/o");
  JobSpec later = spec_of(text);
  give_name(later, "brave_name");
  CHECK(later.name == "brave_name");
  CHECK(later.outputs.at("o").path == "/project/out/brave_name/o");
}

TEST_CASE("paths are relative to the file that names them, not to the working directory") {
  const ReadOptions options = in_project({{"/project/sub/src/", ""}, {"/project/src/", ""}});
  const JobFile job = read_job_file("sub/job.yml", job_head + "code: src\n", options);
  CHECK(job.spec.code == "/project/sub/src");
  const JobFile absolute =
      read_job_file("/project/sub/job.yml", job_head + "code: ../src\n", options);
  CHECK(absolute.spec.code == "/project/src");
}

TEST_CASE("code that is missing or a file is an error") {
  const ReadOptions options = in_project({{"/project/a.py", ""}});
  CHECK_THAT(findings_of(job_head + "code: gone", options),
             ContainsSubstring("there is no directory '/project/gone'"));
  CHECK_THAT(findings_of(job_head + "code: a.py", options), ContainsSubstring("is a file"));
}

TEST_CASE("a --set option changes the tree before the checks and is named in findings") {
  ReadOptions options = in_project();
  options.sets = {"resources.instance_count=4",       "tags.a.b=c",    "command=echo a: b = c",
                  "properties.muster.nodes.spares=2", "inputs={n: 5}", "limits.timeout=1h"};
  const JobSpec spec = spec_of(job_head, options);
  CHECK(spec.instance_count == 4);
  CHECK(spec.tags.at("a.b") == "c");
  CHECK(spec.command == "echo a: b = c");
  CHECK(spec.muster.nodes_spares == 2);
  CHECK(spec.inputs.at("n").literal == "5");
  CHECK(spec.timeout == Seconds{3600});
  options.sets = {"resources.instance_type=[a, b]"};
  CHECK(spec_of(job_head, options).instance_types == std::vector<std::string>{"a", "b"});
  options.sets = {"command=null"};
  CHECK_THAT(findings_of(job_head, options), ContainsSubstring("'command' has no value"));
  options.sets = {"inputs={n: [}"};
  CHECK_THAT(findings_of(job_head, options), ContainsSubstring("--set inputs:1:"));
  options.sets = {"name=a\x01"};
  CHECK_THAT(findings_of(job_head, options),
             ContainsSubstring("--set name: error: the value contains a control character"));

  options.sets = {"resources.instance_count=none", "command.below=x", "nothing", "=x", "a..b=x"};
  CHECK(findings_of(job_head, options) ==
        "--set resources.instance_count: error: resources.instance_count: expected an integer, "
        "got 'none'\n"
        "--set command.below: error: cannot be set: there is a plain value above it in the file\n"
        "--set nothing: error: expected --set <path>=<value>\n"
        "--set : error: expected --set <path>=<value>\n"
        "--set a..b: error: cannot be set: the path has an empty part\n");
}

TEST_CASE("a finding about a value that stands in no line has no line, and shows none") {
  ReadOptions options = in_project();
  options.sets = {"resources.instance_count=none"};
  const JobFile job = read_job(job_head, options);
  REQUIRE(job.findings.size() == 1);
  CHECK(job.findings[0].file == "--set resources.instance_count");
  CHECK(job.findings[0].line == 0);
  CHECK(job.findings[0].column == 0);
  CHECK(job.findings[0].source_line.empty());
  const JobFile wrong = read_job(job_head + "tags: {é: [é]}\n");
  REQUIRE(wrong.findings.size() == 1);
  CHECK(wrong.findings[0].line == 4);
  CHECK(wrong.findings[0].column == 11);  // characters, not bytes
  CHECK(wrong.findings[0].source_line == "tags: {é: [é]}");
}

TEST_CASE("an environment is an asset of some workspace, a file, or what is wrong with it") {
  const auto finding_of = [](const std::string& environment) {
    return findings_of("command: x\ncompute: local\nenvironment: " + environment + "\n");
  };
  for (const char* good :
       {"azureml:host", "azureml:torch:1", "azureml:torch@latest",
        "azureml://registries/azureml/environments/torch/versions/1",
        "azureml:/subscriptions/s/resourceGroups/g/environments/torch/versions/1"}) {
    CAPTURE(good);
    CHECK_THAT(finding_of(good), !ContainsSubstring("error"));
  }
  for (const char* wrong : {"/environments/torch", "torch/environments/1", "azureml:/torch",
                            "xazureml:/a/environments/b", "'azureml:'"}) {
    CAPTURE(wrong);
    CHECK_THAT(finding_of(wrong),
               ContainsSubstring("environment: expected azureml:<name>[:<version>|@<label>]"));
  }
  CHECK_THAT(finding_of("torch"), ContainsSubstring("did you mean 'azureml:torch'?"));
  CHECK_THAT(finding_of("<your-environment>"), ContainsSubstring("replace the placeholder"));
}

TEST_CASE("several nodes without 'distribution' are warned of, one node is not") {
  const std::string warning = "nodes runs one process that gets node variables only";
  CHECK_THAT(findings_of(job_head + "resources: {instance_count: 2}\n"),
             ContainsSubstring("without 'distribution' each of the 2 " + warning));
  for (const char* silent : {"", "resources: {instance_count: 1}\n",
                             "resources: {instance_count: 2}\ndistribution: {type: pytorch}\n",
                             "resources: {instance_count: 2}\nmuster: {remote_start: true}\n"}) {
    CAPTURE(silent);
    CHECK_THAT(findings_of(job_head + silent), !ContainsSubstring(warning));
  }
  const std::string mpi = "distribution: {type: mpi, process_count_per_instance: 1}\n";
  const std::string second = "'mpirun' starts the processes a second time";
  CHECK_THAT(findings_of("command: mpirun x\nenvironment: azureml:host\ncompute: local\n" + mpi),
             ContainsSubstring(second));
  CHECK_THAT(findings_of(job_head + mpi), !ContainsSubstring(second));
}

TEST_CASE("a missing environment or compute is said, and is no error") {
  const JobFile job = read_job("command: x\n");
  CHECK(!has_errors(job.findings));
  CHECK(!has_unresolved(job.findings));
  CHECK_THAT(printed(job.findings), ContainsSubstring("warning: no 'environment'"));
  CHECK_THAT(printed(job.findings), ContainsSubstring("note: no 'compute'"));
}

TEST_CASE("a command that is too long for one argument is an error") {
  CHECK_THAT(findings_of("command: " + std::string(140000, 'x')),
             ContainsSubstring("longer than 128 KiB"));
}

TEST_CASE("expanded text cannot forge the placeholder of a path") {
  CHECK_THAT(findings_of("command: ${{inputs.a}}\ninputs: {a: \"\\x01outputs.o\\x02\"}"),
             ContainsSubstring("control characters"));
}

}  // namespace
}  // namespace muster
