// What a rank finds: its environment, its paths, its command.
#include "launcher/agent/keeper/rank_environment.h"

#include "tests/catch.h"

using namespace muster;

namespace {

struct Given {
  Given() {
    run.home = "/home";
    run.controller = "c";
    run.node.value = "n";
    run.path = "/home/run/c/n";
    start.job.value = "job";
    start.attempt.value = 2;
    start.command = "train \x01inputs.text\x02 \x01outputs.model\x02";
    start.ranks = {{RankId{4}, 0, {{"RANK", "4"}}}, {RankId{5}, 1, {{"RANK", "5"}}}};
  }
  AttemptLayout layout() const { return layout_of(run, {start.job, start.attempt}); }
  Environment of_rank(std::size_t index, const Environment& base = {{"PATH", "/bin"}}) {
    const AttemptLayout where = layout();
    const DataPaths paths = data_paths(start, where, [](const std::string&) { return false; });
    return rank_environment({start, where, paths, "token", "/sock", "/lease", ports},
                            start.ranks[index], base);
  }
  RunDirectory run;
  StartRanks start;
  std::vector<int> ports;
};

InputSpec a_folder(const std::string& path) {
  InputSpec input;
  input.path_kind = PathKind::local;
  input.path = path;
  return input;
}

bool all_staged(const std::string&) {
  return true;
}
bool none_staged(const std::string&) {
  return false;
}

}  // namespace

TEST_CASE("a rank inherits a few variables of its agent and no others") {
  const Environment base = base_environment({{"HOME", "/h"}, {"SECRET", "s"}, {"LANG", "C"}});
  CHECK(base.at("HOME") == "/h");
  CHECK(base.at("LANG") == "C");
  CHECK_FALSE(base.contains("SECRET"));
  CHECK_THAT(base.at("PATH"), ContainsSubstring("/usr/bin"));
  CHECK(base_environment({{"PATH", "/mine"}}).at("PATH") == "/mine");
}

TEST_CASE("what the job sets wins over what the agent suggests, never over its marks") {
  Given given;
  given.start.environment = {{"MUSTER_JOB", "mine"}, {"PATH", "/job"}};
  for (const char* mark : {"MUSTER_TOKEN", "MUSTER_LEASE", "MUSTER_AGENT_SOCKET"}) {
    given.start.environment[mark] = "x";
  }
  const Environment environment = given.of_rank(0);
  CHECK(environment.at("MUSTER_JOB") == "mine");
  CHECK(environment.at("PATH") == "/job");
  CHECK(environment.at("RANK") == "4");
  CHECK(environment.at("MUSTER_TOKEN") == "token");
  CHECK(environment.at("MUSTER_AGENT_SOCKET") == "/sock");
  CHECK(environment.at("MUSTER_LEASE") == "/lease");
  CHECK(environment.at("MUSTER_ATTEMPT") == "2");
  CHECK(environment.at("MUSTER_EPOCH") == "3");
  CHECK(environment.at("MUSTER_RESUME_FROM") == "");
  CHECK(environment.at("MUSTER_CHECKPOINT_DIR") == "/home/jobs/c/n/job/ckpt");
  CHECK(environment.at("MUSTER_HEARTBEAT") == "/home/run/c/n/attempts/job/2/vitals/heartbeat-4");
  CHECK_THAT(environment.at("MUSTER_METRICS"), ContainsSubstring("/vitals/metrics-4.jsonl"));
  given.start.checkpoint_path = "/shared/ckpt";
  given.start.resume_from = CheckpointRef{};
  given.start.resume_from->directory = "/shared/ckpt/s000000010-g1";
  CHECK(given.of_rank(1).at("MUSTER_CHECKPOINT_DIR") == "/shared/ckpt");
  CHECK(given.of_rank(1).at("MUSTER_RESUME_FROM") == "/shared/ckpt/s000000010-g1");
}

TEST_CASE("muster.py is found last, or not at all") {
  Given given;
  const std::string folder = "/home/run/c/n/attempts/job/2/python";
  CHECK(given.of_rank(0).at("MUSTER_PYTHON") == folder);
  CHECK(given.of_rank(0).at("PYTHONPATH") == folder);
  given.start.environment = {{"PYTHONPATH", "/mine:/other"}};
  CHECK(given.of_rank(0).at("PYTHONPATH") == "/mine:/other:" + folder);
  given.start.environment["MUSTER_PYTHON"] = "";
  CHECK(given.of_rank(0).at("PYTHONPATH") == "/mine:/other");
  given.start.environment.erase("PYTHONPATH");
  CHECK_FALSE(given.of_rank(0).contains("PYTHONPATH"));
}

TEST_CASE("ranks that want MLflow get a database, made by the first with the command's Python") {
  Given given;
  given.start.command = "source venv/bin/activate && exec /opt/py/bin/python3.11 train.py";
  CHECK_FALSE(given.of_rank(0).contains("MLFLOW_TRACKING_URI"));
  CHECK(rank_command(given.start, {}) == given.start.command);
  given.start.metrics_mlflow = true;
  CHECK(given.of_rank(0).at("MLFLOW_TRACKING_URI") ==
        "sqlite:////home/jobs/c/n/job/outputs/mlflow.db");
  const std::string command = rank_command(given.start, {});
  CHECK_THAT(command, ContainsSubstring("/opt/py/bin/python3.11 -m mlflow db upgrade"));
  CHECK(command.ends_with("\n" + given.start.command));
  given.start.command = "'python x; rm' run";  // no name that a shell would take as it is
  CHECK_THAT(rank_command(given.start, {}), ContainsSubstring(" python3 -m mlflow db upgrade"));
  given.start.node_index = 2;
  CHECK(given.of_rank(0).at("MLFLOW_TRACKING_URI").ends_with("/mlflow-node2.db"));
  given.start.environment = {{"MLFLOW_TRACKING_URI", "https://mlflow"}};
  CHECK(given.of_rank(0).at("MLFLOW_TRACKING_URI") == "https://mlflow");
  CHECK(rank_command(given.start, {}) == given.start.command);
}

TEST_CASE("the command of a ray job is run by the program that starts Ray") {
  Given given;
  const AttemptLayout layout = given.layout();
  const std::vector<int> ports;
  const DataPaths paths;
  const RankSetting setting{given.start, layout, paths, "t", "/s", "/l", ports};
  const std::vector<std::string> command{"/bin/bash", "-c", "train"};
  CHECK(in_ray(command, setting) == command);
  given.start.environment["MUSTER_RAY_NODES"] = "2";
  given.start.node_index = 1;
  const std::vector<std::string> behind = in_ray(command, setting);
  CHECK(behind == std::vector<std::string>{
                      "/bin/bash", "-c", "exec python3 -I \"$0\" \"$@\"",
                      "/home/run/c/n/attempts/job/2/python/muster_ray.py", "1", layout.ray_scratch,
                      "/bin/bash", "-c", "train"});
  CHECK(layout.ray_scratch.size() + 2 <= 43);  // "/r"
}

TEST_CASE("the rank that waits for a debugger finds the module for that first, and no other does") {
  Given given;
  const std::string folder = "/home/run/c/n/attempts/job/2/";
  given.start.environment = {{"PYTHONPATH", "/mine"}};
  given.start.ranks[0].environment["MUSTER_DEBUG_WAIT"] = "600";
  CHECK(given.of_rank(0).at("PYTHONPATH") == folder + "debug:/mine:" + folder + "python");
  CHECK(given.of_rank(1).at("PYTHONPATH") == "/mine:" + folder + "python");
  given.start.environment = {{"MUSTER_PYTHON", ""}};
  CHECK(given.of_rank(0).at("PYTHONPATH") == folder + "debug");
}

TEST_CASE("a rank that is told torchrun's variables is told where to leave its error") {
  Given given;
  CHECK_FALSE(given.of_rank(0).contains("TORCHELASTIC_ERROR_FILE"));
  given.start.environment = {{"TORCHELASTIC_RUN_ID", "job"}};
  CHECK(given.of_rank(0).at("TORCHELASTIC_ERROR_FILE") ==
        "/home/run/c/n/attempts/job/2/vitals/error-4.json");
}

TEST_CASE("ranks of an elastic job find their members and each a port of its own") {
  Given given;
  given.start.elastic = true;
  given.ports = {2001};
  CHECK(given.of_rank(0).at("MUSTER_MEMBERS") == "/home/run/c/n/attempts/job/2/members");
  CHECK(given.of_rank(0).at("MUSTER_MEMBER_PORT") == "2001");
  CHECK_FALSE(given.of_rank(1).contains("MUSTER_MEMBER_PORT"));
  given.ports = {2001, 2002};
  CHECK(given.of_rank(1).at("MUSTER_MEMBER_PORT") == "2002");
}

TEST_CASE("an input is found where it was staged, else where it is") {
  Given given;
  given.start.inputs["text"] = a_folder("/data/text");
  given.start.inputs["file"] = a_folder("/data/one.txt");
  given.start.inputs["file"].type = DataType::uri_file;
  given.start.inputs["direct"] = a_folder("/data/direct");
  given.start.inputs["direct"].mode = InputMode::direct;
  given.start.inputs["rate"].is_literal = true;
  given.start.inputs["rate"].literal = "0.1";
  const std::string staged = given.layout().inputs;
  const auto here = data_paths(given.start, given.layout(), all_staged).inputs;
  CHECK(here.at("text") == staged + "/text");
  CHECK(here.at("file") == staged + "/file/one.txt");
  CHECK(here.at("direct") == "/data/direct");
  CHECK(here.at("rate") == "0.1");
  const auto there = data_paths(given.start, given.layout(), none_staged).inputs;
  CHECK(there.at("text") == "/data/text");
  CHECK(there.at("file") == "/data/one.txt");
}

TEST_CASE("an output lies with the job, or where the job says, or where all nodes see it") {
  Given given;
  auto& outputs = given.start.outputs;
  outputs["model"] = {};
  outputs["here"].path_kind = PathKind::local;
  outputs["here"].path = "/out/here";
  outputs["copied"] = outputs["here"];
  outputs["copied"].mode = OutputMode::upload;
  outputs["direct"].mode = OutputMode::direct;
  outputs["direct"].path = "azureml://x";
  const auto lie = [&] { return data_paths(given.start, given.layout(), none_staged).outputs; };
  const std::string own = given.layout().outputs;
  CHECK(lie().at("model") == own + "/model");
  CHECK(lie().at("here") == "/out/here");
  CHECK(lie().at("copied") == own + "/copied");
  CHECK(lie().at("direct") == "azureml://x");
  given.start.shared_outputs = "/shared/out";
  CHECK(lie().at("model") == "/shared/out/model");
  CHECK(lie().at("copied") == own + "/copied");
}

TEST_CASE("a command has its paths filled in, and how it resumes where it does") {
  Given given;
  const DataPaths paths{{{"text", "/in"}}, {{"model", "/out"}}};
  CHECK(rank_command(given.start, paths) == "train /in /out");
  given.start.resume_argument = "--from {checkpoint} --step {step}";
  CHECK(rank_command(given.start, paths) == "train /in /out");
  given.start.resume_from = CheckpointRef{};
  given.start.resume_from->directory = "/ckpt/s10";
  given.start.resume_from->step = 10;
  CHECK(rank_command(given.start, paths) == "train /in /out --from /ckpt/s10 --step 10");
  given.start.resume_from->directory = "/shared/a$(reboot)b-1.pt";  // another user may name it so
  CHECK(rank_command(given.start, paths) ==
        "train /in /out --from ${MUSTER_RESUME_FROM} --step 10");
}

TEST_CASE("the door's programs come first on the path, whatever path the job sets") {
  Given given;
  CHECK_FALSE(given.of_rank(0).contains("MUSTER_HOSTFILE"));
  given.start.door.emplace();
  given.start.environment["PATH"] = "/opt/bin";
  const Environment rank = given.of_rank(0);
  CHECK(rank.at("PATH") == given.layout().spool + "/bin:/opt/bin");
  CHECK(rank.at("MUSTER_HOSTFILE") == given.layout().spool + "/hostfile");
  CHECK(rank.at("MUSTER_DISCOVERY").starts_with(given.layout().spool + "/bin/"));
}

TEST_CASE("ranks of a node with services find what is known of them, whatever the job sets") {
  Given given;
  CHECK_FALSE(given.of_rank(0).contains("MUSTER_SERVICES"));
  given.start.services["lab"].type = "jupyter_lab";
  given.start.environment["MUSTER_SERVICES"] = "/elsewhere";
  CHECK(given.of_rank(0).at("MUSTER_SERVICES") == given.layout().spool + "/services");
}
