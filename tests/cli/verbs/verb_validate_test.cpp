// What `validate` says of several files at once, on its standard output and by its exit code.
#include <nlohmann/json.hpp>

#include "tests/catch.h"
#include "tests/cli/command_site.h"

using namespace muster;

namespace {

struct Site {
  Site() {
    site.add("good", "command: x\nenvironment: azureml:host\ncompute: local\n");
    site.add("bad", "commnd: x\nenvironment: azureml:host\ncompute: local\n");
    site.add("unresolved", "command: x\nenvironment: azureml:host\ncompute: nowhere\n");
    site.add("empty", "");
    site.add("lab", "compute: {lab: {nodes: [\"n[1-3]\"]}}\n");
  }

  SaidByVerb validate(const std::vector<std::string>& names,
                      const std::string& options = "-o json") const {
    std::string line = "validate " + options;
    for (const std::string& name : names) line += " " + site.path(name);
    return site.type(line);
  }

  const CommandSite site;
};

}  // namespace

TEST_CASE("one file that is wrong makes validate end with 90, wherever it stands") {
  Site site;
  CHECK(site.validate({"good"}).code == 0);
  CHECK(site.validate({"good", "lab"}).code == 0);
  CHECK(site.validate({"bad", "good"}).code == 90);
  CHECK(site.validate({"good", "bad"}).code == 90);
  CHECK(site.validate({"good", "bad", "lab"}).code == 90);
  CHECK(site.validate({"unresolved", "good"}).code == 90);
  CHECK(site.validate({"empty", "good"}).code == 90);
  CHECK(site.validate({"absent", "good"}).code == 90);
}

TEST_CASE("each file has its own verdict") {
  Site site;
  const Document all =
      Document::parse(site.validate({"good", "bad", "unresolved", "empty", "absent"}).out);
  REQUIRE(all.size() == 5);
  CHECK(all[0]["valid"] == true);
  for (std::size_t i = 1; i < all.size(); ++i) CHECK(all[i]["valid"] == false);
  CHECK(all[1]["findings"].back()["message"] == "unknown key 'commnd'");
  const std::string text = site.validate({"good", "bad", "lab"}, "").out;
  CHECK_THAT(text, ContainsSubstring("good: ok (command job)\n"));
  CHECK_THAT(text, ContainsSubstring("bad: not ok (command job)\n"));
  CHECK_THAT(text, ContainsSubstring("lab: ok (cluster, 3 nodes)\n"));
}

TEST_CASE("another file of muster is named instead of being judged as a job") {
  Site site;
  site.site.add("profile", "profile: x\ngpu: {count: 8}\n");
  site.site.add("drill", "job: x.yml\nsteps: []\n");
  site.site.add("retention", "journal: 90d\n");
  site.site.add("neither", "environment: azureml:host\ncompute: local\nplace: x\n");
  const SaidByVerb said = site.validate({"profile", "drill", "retention", "neither"});
  CHECK(said.code == 90);
  const char* const says[] = {"a health profile", "a drill", "a retention file", "'command'"};
  for (std::size_t i = 0; i < 4; ++i) {
    REQUIRE(said.document()[i]["findings"].size() >= 1);
    CHECK((said.document()[i]["findings"].size() == 1) == (i < 3));
    CHECK_THAT(said.document()[i]["findings"][0]["message"].get<std::string>(),
               ContainsSubstring(says[i]));
  }
}

TEST_CASE("an error does not hide that the job could not run here") {
  Site site;
  site.site.add("both",
                "command: x\nmuster: {placement: {labels: [a]}}\ncompute: nowhere\n"
                "resources: {a: 1}\n");
  const std::string text = site.validate({"both"}).out;
  CHECK_THAT(text, ContainsSubstring("unknown key 'a' in 'resources'"));
  CHECK_THAT(text, ContainsSubstring("there is no target 'nowhere'"));
  CHECK_THAT(text, ContainsSubstring("nodes have no labels yet"));
  site.site.add("refused", "command: x\ncompute: [a]\n");
  const Document told = Document::parse(site.validate({"refused"}).out)[0]["findings"];
  int about_compute = 0;
  for (const Document& finding : told) about_compute += finding["key"] == "compute" ? 1 : 0;
  CHECK(about_compute == 1);
}

TEST_CASE("for Azure ML the map muster is an error, in its place among the others") {
  Site site;
  site.site.add("mine",
                "command: x\nenvironment: azureml:host\ncompute: local\nmuster: {priority: 1}\n");
  CHECK(site.validate({"mine"}).code == 0);
  CHECK(site.validate({"mine"}, "-o json --for azure").code == 90);
  CHECK_THAT(site.validate({"mine"}, "-o json --for azure").out,
             ContainsSubstring("Azure ML: muster: there is no such key"));
  site.site.add("theirs", "command: x\nenvironment: {image: ubuntu}\n");
  CHECK_THAT(site.validate({"theirs"}, "-o json --for azure").out,
             !ContainsSubstring("Azure ML: "));
}

TEST_CASE("a file that describes a resource is fine; to run one says what it is") {
  Site site;
  const std::pair<const char*, const char*> files[] = {
      {"environment", "name: e\nversion: 1\nimage: ubuntu\n"},
      {"data asset", "name: d\ntype: uri_folder\npath: wasbs://c@a.blob.core.windows.net/x\n"},
      {"compute", "name: c\ntype: amlcompute\nsize: STANDARD_ND96\n"},
      {"datastore", "name: s\ntype: azure_blob\naccount_name: a\ncontainer_name: c\n"},
      {"command component",
       "name: t\nversion: 1\ntype: command\ncommand: x\nenvironment: {image: ubuntu}\n"}};
  for (const auto& [kind, text] : files) {
    CAPTURE(kind);
    std::string name = kind;
    std::erase(name, ' ');
    site.site.add(name, text);
    const SaidByVerb said = site.validate({name}, "");
    CHECK(said.code == 0);
    CHECK_THAT(said.out, ContainsSubstring(": ok (" + std::string(kind) + ")\n"));
    const SaidByVerb run = site.site.type("plan " + site.site.path(name));
    CHECK(run.code == 90);
    CHECK_THAT(run.err, ContainsSubstring("a job"));
  }
}
