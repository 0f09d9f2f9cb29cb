// Submitting a job: which names it may have, what the controller is handed, and what is left of a
// job that it does not take.
#include <nlohmann/json.hpp>
#include <regex>

#include "cli/client/start.h"
#include "cli/job/submission.h"
#include "tests/catch.h"
#include "tests/cli/command_site.h"
#include "tests/cli/fake_controller.h"

using namespace muster;

namespace {

const std::string echo_job = "command: echo\nenvironment: azureml:host\ncompute: local\n";

// Takes every job, or says `instead`.
FakeController::Answer taking_jobs(std::vector<Submit>* taken = nullptr,
                                   const std::optional<FromController>& instead = {}) {
  return of_this_build([=](const ToController& request) {
    const auto& submit = std::get<Submit>(request);
    if (taken != nullptr) taken->push_back(submit);
    return encode(instead.value_or(Accepted{JobId{submit.spec.name}, "it waits"}));
  });
}

bool has_directory(const CommandSite& site, const std::string& job) {
  return std::filesystem::exists(site.home().job(JobId{job}));
}

ComputeTarget target_of(TransportKind transport, const std::string& shared_root) {
  ComputeTarget target;
  target.nodes = {NodeAddress{}, NodeAddress{}};
  target.nodes[1].transport = transport;
  target.shared_root = shared_root;
  return target;
}

JobSpec spec_with(InputMode mode) {
  JobSpec spec;
  spec.code = "/project/code";
  InputSpec input;
  input.path_kind = PathKind::local;
  input.path = "/data/set";
  input.mode = mode;
  spec.inputs["data"] = input;
  InputSpec literal;
  literal.is_literal = true;
  spec.inputs["rate"] = literal;
  return spec;
}

std::vector<std::string> places(const JobSpec& spec, const ComputeTarget& target) {
  std::vector<std::string> out;
  for (const SnapshotRequest& request : sources_of(spec, target)) out.push_back(request.place);
  return out;
}

}  // namespace

TEST_CASE("a job that is submitted is handed over as its file says, and its name is printed") {
  const CommandSite site;
  std::vector<Submit> taken;
  FakeController controller(site.home(), FakeController::any_number, taking_jobs(&taken));
  const std::string file = site.add("job.yml", echo_job + "display_name: Echo\n");
  const SaidByVerb said = site.type("submit --name kite " + file);
  CHECK(said.code == 0);
  CHECK(said.out == "kite\n");
  CHECK_THAT(said.err, ContainsSubstring("it waits"));
  REQUIRE(taken.size() == 1);
  CHECK(taken[0].spec.name == "kite");
  CHECK(taken[0].spec.display_name == "Echo");
  CHECK_FALSE(taken[0].spec.experiment_name.empty());
  CHECK(taken[0].target.name == "local");
  CHECK_FALSE(taken[0].user.empty());
  CHECK(taken[0].source_text == site.text_of("job.yml"));
  CHECK(site.text_of("home/jobs/kite/spec.yml") == site.text_of("job.yml"));
  CHECK_THAT(site.text_of("home/jobs/kite/spec.json"), ContainsSubstring("\"kite\""));
  // One without a name gets one, which is also what it is shown as.
  const SaidByVerb unnamed = site.type("submit " + site.add("plain.yml", echo_job));
  CHECK(unnamed.code == 0);
  REQUIRE(taken.size() == 2);
  CHECK(unnamed.out == taken[1].spec.name + "\n");
  CHECK(taken[1].spec.display_name == taken[1].spec.name);
}

TEST_CASE("a job's name is letters, digits, '_' and '-', the first of them no sign") {
  const CommandSite site;
  std::vector<Submit> taken;
  FakeController controller(site.home(), FakeController::any_number, taking_jobs(&taken));
  const std::string file = site.add("job.yml", echo_job);
  for (const std::string& name :
       {std::string("a"), std::string("9"), std::string("Za-z_09"), std::string(255, 'a')}) {
    CAPTURE(name);
    CHECK(site.type("submit " + file + " --name=" + name).code == 0);
  }
  CHECK(taken.size() == 4);
  for (const std::string& name : {std::string("_a"), std::string("-a"), std::string("a/b"),
                                  std::string("a.b"), std::string("../a"), std::string("é"),
                                  std::string("a b"), std::string(256, 'a'), std::string()}) {
    CAPTURE(name);
    const SaidByVerb said = site.type("submit " + file, {"--name", name});
    CHECK(said.code == 90);
    CHECK(said.out.empty());
    CHECK_THAT(said.err, ContainsSubstring("invalid job name '"));
    CHECK_THAT(said.err, ContainsSubstring("1 to 255 letters"));
    CHECK(said.err.size() < 250);
  }
  CHECK(taken.size() == 4);
}

TEST_CASE("a name on the command line replaces one of the file that is none") {
  const CommandSite site;
  std::vector<Submit> taken;
  FakeController controller(site.home(), FakeController::any_number, taking_jobs(&taken));
  const std::string file = site.add("job.yml", echo_job + "name: my job\n");
  CHECK(site.type("submit " + file).code == 90);
  for (const std::string name : {"kite", "true", "12"}) {
    CHECK(site.type("submit " + file + " --name " + name).code == 0);
    REQUIRE_FALSE(taken.empty());
    CHECK(taken.back().spec.name == name);
  }
}

TEST_CASE("a name is taken once: the second job of it is refused and the first one stays") {
  const CommandSite site;
  FakeController controller(site.home(), FakeController::any_number, taking_jobs());
  const std::string file = site.add("job.yml", echo_job);
  REQUIRE(site.type("submit --name kite " + file).code == 0);
  std::filesystem::create_directory(site.home().job(JobId{"kite"}) / "attempt-0");
  const SaidByVerb second = site.type("submit --name kite " + file);
  CHECK(second.code == 90);
  CHECK_THAT(second.err, ContainsSubstring("the job name 'kite' exists"));
  CHECK(has_directory(site, "kite"));
}

TEST_CASE("of a job that the controller does not take nothing is left") {
  struct Row {
    FromController answer;
    int code;
    const char* says;
  };
  const std::vector<Row> rows{
      {Refused{"the disk is full", 77}, 77, "muster: the disk is full\n"},
      {VersionAnswer{"x", 7, 0}, 99, "the controller gave an unexpected answer"},
  };
  for (const Row& row : rows) {
    const CommandSite site;
    FakeController controller(site.home(), FakeController::any_number,
                              taking_jobs(nullptr, row.answer));
    const SaidByVerb said = site.type("submit --name kite " + site.add("job.yml", echo_job));
    CHECK(said.code == row.code);
    CHECK(said.out.empty());
    CHECK_THAT(said.err, ContainsSubstring(row.says));
    CHECK_FALSE(has_directory(site, "kite"));
  }
}

TEST_CASE("code that cannot be copied is told, and the job is not handed over") {
  const CommandSite site;
  std::vector<Submit> taken;
  FakeController controller(site.home(), FakeController::any_number, taking_jobs(&taken));
  const std::string file = site.add("job.yml", echo_job + "code: ./src\n");
  site.add("src/main.py", "");
  site.add("home/blobs", "a file where the folder of copies should be");
  const SaidByVerb said = site.type("submit --name kite " + file);
  CHECK(said.code == 99);
  CHECK(said.out.empty());
  CHECK_THAT(said.err, ContainsSubstring(site.path("home/blobs")));
  CHECK(taken.empty());
  CHECK_FALSE(has_directory(site, "kite"));
}

TEST_CASE("what is no job here ends with 90 and says why") {
  const CommandSite site;
  const SaidByVerb cluster = site.type("submit " + site.path("lab.yml"));
  CHECK(cluster.code == 90);
  CHECK_THAT(cluster.err, ContainsSubstring("the file is a cluster, not a job"));
  const SaidByVerb wrong = site.type("submit " + site.add("wrong.yml", "commnd: x\n"));
  CHECK(wrong.code == 90);
  CHECK_THAT(wrong.err, ContainsSubstring("did you mean 'command'?"));
  const SaidByVerb absent = site.type("submit -o json --name kite " + site.path("none.yml"));
  CHECK(absent.code == 90);
  CHECK_THAT(absent.err, ContainsSubstring("none.yml"));
  CHECK(absent.document()["status"] == "NotStarted");
  CHECK(absent.document()["name"] == "kite");
  CHECK(absent.document()["exit_code"] == 90);
}

TEST_CASE("a state directory that cannot be is told before anything is made") {
  const CommandSite site;
  const std::string job = site.add("job.yml", echo_job);
  ::setenv("MUSTER_HOME", (site.add("file", "") + "/home").c_str(), 1);  // the site puts it back
  const SaidByVerb said = site.type("submit " + job);
  CHECK(said.code == 99);
  CHECK_THAT(said.err, ContainsSubstring("cannot use the state directory"));
}

TEST_CASE("a made name is adjective_noun_ and ten characters, whatever the random bytes") {
  const std::regex form("[a-z]+_[a-z]+_[a-z0-9]{10}");
  for (int byte = 0; byte < 256; ++byte) {
    NameBytes random;
    random.fill(static_cast<std::uint8_t>(byte));
    CHECK(std::regex_match(job_name_from(random), form));
  }
}

TEST_CASE("each random byte of the last part shows in the name") {
  NameBytes random{};
  const std::string before = job_name_from(random);
  for (std::size_t i = 0; i < 12; ++i) {
    NameBytes changed = random;
    changed[i] = 1;
    CHECK(job_name_from(changed) != before);
  }
}

TEST_CASE("an input is copied only where a node cannot see it") {
  const auto local = target_of(TransportKind::local, "");
  const auto remote = target_of(TransportKind::ssh, "");
  const auto shared = target_of(TransportKind::ssh, "/data");
  const auto elsewhere = target_of(TransportKind::ssh, "/dat");
  using Places = std::vector<std::string>;
  CHECK(places(spec_with(InputMode::ro_mount), local) == Places{"code"});
  CHECK(places(spec_with(InputMode::ro_mount), remote) == Places{"code", "inputs/data"});
  CHECK(places(spec_with(InputMode::ro_mount), shared) == Places{"code"});
  CHECK(places(spec_with(InputMode::ro_mount), elsewhere) == Places{"code", "inputs/data"});
  CHECK(places(spec_with(InputMode::download), local) == Places{"code", "inputs/data"});
  CHECK(places(spec_with(InputMode::direct), remote) == Places{"code"});
}

TEST_CASE("code may be written to and leaves out what it ignores; an input is copied whole") {
  const auto sources =
      sources_of(spec_with(InputMode::download), target_of(TransportKind::ssh, ""));
  REQUIRE(sources.size() == 2);
  CHECK(sources[0].source == "/project/code");
  CHECK(sources[0].writable);
  CHECK(sources[0].honour_ignore_files);
  CHECK(sources[1].source == "/data/set");
  CHECK_FALSE(sources[1].writable);
  CHECK_FALSE(sources[1].honour_ignore_files);
}

TEST_CASE("what is no file here is not copied: a job without code, an input of a service") {
  JobSpec spec = spec_with(InputMode::download);
  spec.code.clear();
  spec.inputs["data"].path_kind = PathKind::asset;
  CHECK(places(spec, target_of(TransportKind::ssh, "")).empty());
}
