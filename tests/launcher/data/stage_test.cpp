// Staging with the real rclone, from a directory of this machine as its store.

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <random>

#include "launcher/data/cache.h"
#include "launcher/data/rclone.h"
#include "launcher/staging/content_hash.h"
#include "scheduler/text/text.h"
#include "tests/catch.h"
#include "tests/launcher/staging/folder.h"
#include "tests/skip.h"

namespace muster {
namespace {

void tell_nobody(std::string_view) {}

class StageSite {
 public:
  StageSite() {
    store_.name = "dir";
    store_.type = DatastoreType::rclone;
    store_.remote = "local";
    store_.path = (folder_ / "store").string();
    std::filesystem::create_directories(store_.path);
  }
  void put(const std::string& name, const std::string& content) const {
    folder_.write("store/" + name, content);
  }
  // What a submission keeps of a path.
  bool list(const std::string& path = "", bool is_file = false) {
    place_ = {store_, path, is_file};
    const auto manifest = list_place(place_, {}, "here");
    if (!manifest) why_ = manifest.error().message;
    if (manifest) text_ = data_manifest_text(*manifest);
    return static_cast<bool>(manifest);
  }
  StagedTree stage(const std::string& size = "80%") const {
    StagedData data{"data", content_hash_of(text_), *rclone_config(store_, {}),
                    rclone_place(store_, root_of(place_))};
    data.size = size;
    return stage_data(data, text_, (folder_ / "cache").string(), "n1", tell_nobody);
  }
  std::string bytes_of(const StagedTree& staged, const std::string& name) const {
    std::ifstream in(staged.path + "/" + name, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  const std::string& why() const { return why_; }
  const Folder& folder() const { return folder_; }

 private:
  Folder folder_;
  DatastoreSpec store_;
  PlaceInStore place_;
  std::string text_;
  std::string why_;
};

bool has_rclone() {
  if (!rclone_program().empty()) return true;
  skip_test("no rclone");
  return false;
}

}  // namespace

TEST_CASE("data are staged whole, whatever their names are, and once") {
  if (!has_rclone()) return;
  StageSite site;
  const std::string names[] = {"a b/c d.bin", "line\nfeed", "\xc3\xa9\xe2\x82\xac",
                               "#x",          "-x",         "deep/e/f/g",
                               "[x]*{y}",     " lead",      "trail "};
  for (const std::string& name : names) site.put(name, "content of " + name);
  site.put("empty", "");
  REQUIRE(site.list());
  const StagedTree staged = site.stage();
  INFO((staged.failure ? staged.failure->message : ""));
  REQUIRE(!staged.failure);
  for (const std::string& name : names) {
    CAPTURE(name);
    CHECK(site.bytes_of(staged, name) == "content of " + name);
  }
  CHECK(std::filesystem::exists(staged.path + "/empty"));
  CHECK(staged.fetched_bytes > 0);
  const StagedTree again = site.stage();
  CHECK(!again.failure);
  CHECK(again.fetched_bytes == 0);
}

TEST_CASE("one file of a store is staged by its name") {
  if (!has_rclone()) return;
  StageSite site;
  site.put("d/iris.csv", "1,2,3");
  site.put("d/other.csv", "4");
  REQUIRE(site.list("d/iris.csv", true));
  const StagedTree staged = site.stage();
  REQUIRE(!staged.failure);
  CHECK(site.bytes_of(staged, "iris.csv") == "1,2,3");
  CHECK(!std::filesystem::exists(staged.path + "/other.csv"));
}

TEST_CASE("a second version fetches what is new") {
  if (!has_rclone()) return;
  StageSite site;
  site.put("a", std::string(100, 'a'));
  REQUIRE(site.list());
  REQUIRE(!site.stage().failure);
  site.put("b", std::string(7, 'b'));
  REQUIRE(site.list());
  const StagedTree staged = site.stage();
  REQUIRE(!staged.failure);
  CHECK(staged.fetched_bytes == 7);
}

TEST_CASE("data that changed since they were listed are found") {
  if (!has_rclone()) return;
  StageSite site;
  site.put("a", "first");
  REQUIRE(site.list());
  site.put("a", "longer than the first");
  StagedTree staged = site.stage();
  REQUIRE(staged.failure);
  CHECK(staged.failure->is_lasting);
  CHECK(mentions(staged.failure->message, "changed since the job was submitted: 'a' has 21 bytes"));
  CHECK(!std::filesystem::exists(staged.path));
  site.put("a", "other");
  staged = site.stage();
  REQUIRE(staged.failure);
  CHECK(mentions(staged.failure->message, "has another time"));
  std::filesystem::remove(site.folder() / "store/a");
  staged = site.stage();
  REQUIRE(staged.failure);
  CHECK(!std::filesystem::exists(staged.path));
}

TEST_CASE("too little room is said before anything is fetched") {
  if (!has_rclone()) return;
  StageSite site;
  site.put("a", std::string(5000, 'a'));
  REQUIRE(site.list());
  const StagedTree staged = site.stage("1000");
  REQUIRE(staged.failure);
  CHECK(!staged.failure->is_lasting);
  CHECK(mentions(staged.failure->message, "the data need 5.0 kB"));
  CHECK(staged.fetched_bytes == 0);
}

TEST_CASE("nothing at a path is told when it is listed") {
  if (!has_rclone()) return;
  StageSite site;
  CHECK(!site.list("nowhere"));
  CHECK(mentions(site.why(), "there is nothing"));
}

TEST_CASE("a staging that is killed at any point leaves no wrong byte") {
  if (!has_rclone()) return;
  StageSite site;
  std::mt19937 random(11);
  std::map<std::string, std::string> contents;
  for (int i = 0; i < 40; ++i) {
    std::string bytes(200'000 + random() % 100'000, '\0');
    for (char& byte : bytes) byte = static_cast<char>(random());
    const std::string name = "d" + std::to_string(i % 5) + "/f" + std::to_string(i);
    site.put(name, bytes);
    contents[name] = std::move(bytes);
  }
  REQUIRE(site.list());
  for (int kills = 0; kills < 20; ++kills) {
    const pid_t child = ::fork();
    if (child == 0) {
      const bool done = !site.stage().failure;
      ::_exit(done ? 0 : 1);
    }
    ::usleep(static_cast<useconds_t>(random() % 120'000));
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
  }
  const StagedTree staged = site.stage();
  REQUIRE(!staged.failure);
  for (const auto& [name, bytes] : contents) {
    CAPTURE(name);
    CHECK(site.bytes_of(staged, name) == bytes);
  }
}

TEST_CASE("two jobs that stage the same data fetch them once") {
  if (!has_rclone()) return;
  StageSite site;
  site.put("a", std::string(3'000'000, 'a'));
  REQUIRE(site.list());
  int fetched = 0;
  for (int i = 0; i < 2; ++i) {
    if (::fork() == 0) {
      const StagedTree staged = site.stage();
      ::_exit(staged.failure ? 100 : staged.fetched_bytes > 0 ? 1 : 0);
    }
  }
  for (int i = 0; i < 2; ++i) {
    int status = 0;
    ::wait(&status);
    fetched += WEXITSTATUS(status);
  }
  CHECK(fetched == 1);
}

}  // namespace muster
