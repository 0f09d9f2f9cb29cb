// What `lineage` and `diff` say of jobs in the store.
#include <nlohmann/json.hpp>

#include "launcher/staging/trees_file.h"
#include "tests/catch.h"
#include "tests/cli/command_site.h"

using namespace muster;

namespace {

JobSpec made_of(const std::string& commit, const std::string& image) {
  JobSpec spec;
  spec.command = "python train.py";
  spec.git_url = "git+https://host/repository@main";
  spec.recorded["code.commit"] = commit;
  spec.environment.image = image;
  InputSpec data;
  data.path = "/data/tokens";
  data.path_kind = PathKind::local;
  spec.inputs["data"] = data;
  spec.environment_variables["HF_TOKEN"] = "do-not-print-me";
  spec.outputs["model"] = {};
  return spec;
}

// A job in the store, whose code was one file with this hash.
void add_job(const CommandSite& site, const std::string& name, JobSpec spec,
             const std::string& code_hash) {
  spec.name = name;
  JobSubmitted submitted;
  submitted.job = JobId{name};
  submitted.spec = spec;
  LaunchBegun begun{JobId{name}, AttemptId{1}, CheckpointRef{40, "/ckpt/s40-g1"}, "newest"};
  JobRow row;
  row.name = name;
  row.state = "Completed";
  row.submitted_at = from_ms(1000);
  row.ended_at = from_ms(2000);
  row.tags = "{}";
  const auto store = Store::open(site.home().root, Store::Mode::read_write);
  check(store &&
            (*store)->append(
                {{from_ms(1000), Observation(submitted)}, {from_ms(1500), Decision(begun)}}, {row}),
        "the records of a test can be written");
  site.add("home/jobs/" + name + "/spec.yml", "command: python train.py # " + name + '\n');
  site.add("home/jobs/" + name + "/outputs/model/weights", "12345");
  TreeEntry file;
  file.path = "train.py";
  file.hash = code_hash;
  check(static_cast<bool>(save_trees(site.home().trees(JobId{name}), {Tree{"code", {file}}})),
        "the trees of a test can be written");
}

}  // namespace

TEST_CASE("the lineage of a job names its code, data, image, job file, checkpoint and outputs") {
  const CommandSite site;
  add_job(site, "kite", made_of("0123abc", "python:3.11"), "aa");
  const Document said = site.type("lineage kite -o json").document();
  CHECK(said["job"] == "kite");
  CHECK(said["job_file"].get<std::string>().size() == 64);
  CHECK(said["code"]["commit"] == "0123abc");
  CHECK(said["code"]["git"] == "git+https://host/repository@main");
  CHECK(said["code"]["tree"].get<std::string>().size() == 64);
  CHECK(said["environment"]["image"] == "python:3.11");
  CHECK(!said["environment"].contains("conda_file"));
  CHECK(said["inputs"]["data"]["path"] == "/data/tokens");
  CHECK(said["checkpoints"][0]["step"] == 40);
  CHECK(said["checkpoints"][0]["attempt"] == 1);
  CHECK(said["outputs"]["model"]["files"] == 1);
  CHECK(said["outputs"]["model"]["bytes"] == 5);
  const std::string table = site.type("lineage kite").out;
  CHECK_THAT(table, ContainsSubstring("code.commit"));
  CHECK_THAT(table, ContainsSubstring("0123abc"));
  CHECK(site.type("lineage nobody").code == 1);
}

TEST_CASE("diff tells in what two jobs differ, and only that") {
  const CommandSite site;
  add_job(site, "one", made_of("0123abc", "python:3.11"), "aa");
  add_job(site, "two", made_of("4567def", "python:3.12"), "bb");
  const SaidByVerb all = site.type("diff one two -o json");
  std::map<std::string, Document> rows;
  for (const Document& row : all.document()) rows[row["what"]] = row;
  CHECK(rows.size() == 4);
  CHECK(rows.at("code.commit")["one"] == "0123abc");
  CHECK(rows.at("code.commit")["other"] == "4567def");
  CHECK(rows.contains("code.tree"));
  CHECK(rows.contains("job_file"));
  CHECK(rows.at("environment.image")["other"] == "python:3.12");
  CHECK_THAT(all.out, !ContainsSubstring("do-not-print-me"));
  CHECK(site.type("diff one one -o json").document().empty());
  CHECK_THAT(site.type("diff one one").err, ContainsSubstring("no difference"));
  CHECK_THAT(site.type("diff one two").out, ContainsSubstring("environment.image"));
}
