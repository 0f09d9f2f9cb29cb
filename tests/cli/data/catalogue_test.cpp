#include "cli/data/catalogue.h"

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>

#include "scheduler/text/text.h"
#include "tests/catch.h"
#include "tests/cli/folder.h"

namespace muster {
namespace {

class CatalogueSite {
  Folder folder_;

 public:
  Home home{folder_.path()};
  Catalogue data{home, Catalogue::Kind::data};
};

}  // namespace

TEST_CASE("a version without a name is the greatest number and one more") {
  const CatalogueSite site;
  CHECK(*site.data.add("cifar", {}, "path: a") == "1");
  CHECK(*site.data.add("cifar", {}, "path: b") == "2");
  CHECK(*site.data.add("cifar", "9", "path: c") == "9");
  CHECK(*site.data.add("cifar", "2024-01-01.x", "path: d") == "2024-01-01.x");
  CHECK(*site.data.add("cifar", {}, "path: e") == "10");
  CHECK(site.data.find("cifar", "2")->text == "path: b");
  CHECK(site.data.find("cifar", "@latest")->version == "10");
  CHECK(site.data.find("cifar", "")->version == "10");
}

TEST_CASE("a version of the catalogue never changes") {
  const CatalogueSite site;
  REQUIRE(site.data.add("cifar", "1", "path: a"));
  const auto again = site.data.add("cifar", "1", "path: b");
  REQUIRE(!again);
  CHECK(mentions(again.error().message, "cifar:1 exists"));
  CHECK(site.data.find("cifar", "1")->text == "path: a");
}

TEST_CASE("the catalogue's files are their owner's alone") {
  const CatalogueSite site;
  REQUIRE(site.data.add("cifar", {}, "path: a"));
  struct stat facts {};
  const auto file = site.home.root / "catalogue/data/cifar/1.yml";
  REQUIRE(::stat(file.c_str(), &facts) == 0);
  CHECK((facts.st_mode & 0777) == 0600);
  REQUIRE(::stat(file.parent_path().c_str(), &facts) == 0);
  CHECK((facts.st_mode & 0777) == 0700);
}

TEST_CASE("no name leads out of the catalogue") {
  const CatalogueSite site;
  for (const char* name : {"", ".", "..", "../x", "a/b", "-x", ".x", "a b", "a\nb", "\xff"}) {
    INFO(name);
    CHECK(!site.data.add(name, {}, "x"));
    CHECK(!site.data.add("x", name, "x"));
    CHECK(!site.data.find(name, ""));
    CHECK(!site.data.find("x", name));
    CHECK(!site.data.remove(name));
  }
  CHECK(!site.data.add(std::string(300, 'a'), {}, "x"));
  CHECK(site.data.names().empty());
}

TEST_CASE("an archived version is no longer the latest") {
  const CatalogueSite site;
  REQUIRE(site.data.add("cifar", {}, "path: a"));
  REQUIRE(site.data.add("cifar", {}, "path: b"));
  REQUIRE(site.data.set_archived("cifar", "2", true));
  CHECK(site.data.find("cifar", "@latest")->version == "1");
  CHECK(site.data.find("cifar", "2")->is_archived);
  REQUIRE(site.data.set_archived("cifar", "", true));
  CHECK(mentions(site.data.find("cifar", "").error().message, "archived"));
  REQUIRE(site.data.set_archived("cifar", "", false));
  CHECK(site.data.find("cifar", "")->version == "2");
  CHECK(!site.data.set_archived("cifar", "7", true));
}

TEST_CASE("a label stands for a version") {
  const CatalogueSite site;
  REQUIRE(site.data.add("cifar", {}, "path: a"));
  REQUIRE(site.data.add("cifar", {}, "path: b"));
  REQUIRE(site.data.set_label("cifar", "@latest", "good"));
  CHECK(site.data.find("cifar", "@good")->text == "path: b");
  REQUIRE(site.data.set_label("cifar", "1", "good"));
  CHECK(site.data.find("cifar", "@good")->text == "path: a");
  CHECK(site.data.labels(*site.data.find("cifar", "1")) == std::vector<std::string>{"good"});
  CHECK(site.data.labels(*site.data.find("cifar", "2")).empty());
  CHECK(!site.data.find("cifar", "@other"));
  CHECK(!site.data.find("cifar", "@../cifar/good"));
  CHECK(site.data.versions("cifar").size() == 2);
  for (const char* label : {"latest", "", "../x", "a b", ".x"}) {
    CAPTURE(label);
    CHECK(!site.data.set_label("cifar", "1", label));
  }
  CHECK(mentions(site.data.set_label("cifar", "3", "good").error().message, "no version '3'"));
  CHECK(!site.data.set_label("none", "1", "good"));
  REQUIRE(site.data.set_label("cifar", "", "good"));
  CHECK(!site.data.find("cifar", "@good"));
  CHECK(mentions(site.data.set_label("cifar", "", "good").error().message, "no label 'good'"));
}

TEST_CASE("what is not there is told with what is near") {
  const CatalogueSite site;
  REQUIRE(site.data.add("cifar10", {}, "path: a"));
  CHECK(mentions(site.data.find("cifar1", "").error().message, "did you mean 'cifar10'?"));
  CHECK(mentions(site.data.find("cifar10", "3").error().message, "the newest are 1"));
}

TEST_CASE("processes that add at the same time get a version each") {
  const CatalogueSite site;
  constexpr int processes = 4;
  constexpr int each = 25;
  for (int i = 0; i < processes; ++i) {
    if (::fork() != 0) continue;
    bool good = true;
    for (int k = 0; k < each; ++k) good &= bool{site.data.add("x", {}, std::to_string(i))};
    ::_exit(good ? 0 : 1);
  }
  for (int i = 0; i < processes; ++i) {
    int status = -1;
    ::wait(&status);
    CHECK(status == 0);
  }
  const auto all = site.data.versions("x");
  REQUIRE(all.size() == processes * each);
  for (const CatalogueEntry& entry : all) CHECK(entry.text.size() == 1);
  CHECK(site.data.find("x", std::to_string(processes * each)));
}

TEST_CASE("a reference is split at its version or label") {
  CHECK(split_reference("a:1") == std::pair<std::string, std::string>("a", "1"));
  CHECK(split_reference("a@latest") == std::pair<std::string, std::string>("a", "@latest"));
  CHECK(split_reference("a") == std::pair<std::string, std::string>("a", ""));
}

}  // namespace muster
