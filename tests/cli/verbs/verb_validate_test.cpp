// What `validate` says of several files at once, on its standard output and by its exit code.
#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "cli/terminal/document.h"
#include "cli/verbs/verbs.h"
#include "tests/catch.h"
#include "tests/cli/folder.h"

using namespace muster;

namespace {

struct Said {
  int code = 0;
  std::string text;
};

class Site {
 public:
  Site() {
    ::setenv("XDG_CONFIG_HOME", folder_.path().c_str(), 1);
    ::unsetenv("MUSTER_CONFIG");
    add("good", "command: x\nenvironment: azureml:host\ncompute: local\n");
    add("bad", "commnd: x\nenvironment: azureml:host\ncompute: local\n");
    add("unresolved", "command: x\nenvironment: azureml:host\ncompute: nowhere\n");
    add("empty", "");
    add("lab", "compute: {lab: {nodes: [\"n[1-3]\"]}}\n");
  }

  Said validate(const std::vector<std::string>& names, OutputFormat form = OutputFormat::json,
                const std::string& dialect = "") {
    ValidateOptions options;
    for (const std::string& name : names) options.files.push_back(path(name));
    options.dialect = dialect;
    CommonOptions common;
    common.output = form;
    const std::string out = path("out");
    const int saved = ::dup(STDOUT_FILENO);
    const int file = ::open(out.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    ::dup2(file, STDOUT_FILENO);
    Said said{validate_files(options, common), ""};
    ::dup2(saved, STDOUT_FILENO);
    ::close(saved);
    ::close(file);
    std::ostringstream text;
    text << std::ifstream(out).rdbuf();
    said.text = text.str();
    return said;
  }

  std::string path(const std::string& name) const { return (folder_.path() / name).string(); }
  void add(const std::string& name, const std::string& text) {
    folder_.append(name, text);
    if (text.empty()) std::ofstream(path(name));
  }

 private:
  Folder folder_;
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
      Document::parse(site.validate({"good", "bad", "unresolved", "empty", "absent"}).text);
  REQUIRE(all.size() == 5);
  CHECK(all[0]["valid"] == true);
  for (std::size_t i = 1; i < all.size(); ++i) CHECK(all[i]["valid"] == false);
  CHECK(all[1]["findings"][0]["message"] == "'command' is required");
  const std::string text = site.validate({"good", "bad", "lab"}, OutputFormat::table).text;
  CHECK_THAT(text, ContainsSubstring("good: ok (command job)\n"));
  CHECK_THAT(text, ContainsSubstring("bad: not ok (command job)\n"));
  CHECK_THAT(text, ContainsSubstring("lab: ok (cluster, 3 nodes)\n"));
}

TEST_CASE("an error does not hide that the job could not run here") {
  Site site;
  site.add("both", "command: x\nenvironment: {image: a}\ncompute: nowhere\nresources: {a: 1}\n");
  const std::string text = site.validate({"both"}).text;
  CHECK_THAT(text, ContainsSubstring("unknown key 'a' in 'resources'"));
  CHECK_THAT(text, ContainsSubstring("there is no target 'nowhere'"));
  CHECK_THAT(text, ContainsSubstring("container images are not run yet"));
  site.add("refused", "command: x\ncompute: [a]\n");
  const Document told = Document::parse(site.validate({"refused"}).text)[0]["findings"];
  int about_compute = 0;
  for (const Document& finding : told) about_compute += finding["key"] == "compute" ? 1 : 0;
  CHECK(about_compute == 1);
}

TEST_CASE("for Azure ML the map muster is an error, in its place among the others") {
  Site site;
  site.add("mine",
           "command: x\nenvironment: azureml:host\ncompute: local\nmuster: {priority: 1}\n");
  CHECK(site.validate({"mine"}).code == 0);
  CHECK(site.validate({"mine"}, OutputFormat::json, "azure").code == 90);
  CHECK_THAT(site.validate({"mine"}, OutputFormat::json, "azure").text,
             ContainsSubstring("Azure ML refuses the map 'muster'"));
  CHECK(site.validate({"good"}, OutputFormat::json, "azure").code == 0);
}
