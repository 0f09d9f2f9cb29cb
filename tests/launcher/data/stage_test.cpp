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
  // What was listed, with another MD5 of its only file.
  void say_md5(const std::string& md5) {
    DataManifest manifest = *read_data_manifest(text_);
    manifest.files.at(0).md5 = md5;
    text_ = data_manifest_text(manifest);
  }
  StagedTree stage(const std::string& size = "80%") const {
    StagedData data{"data", content_hash_of(text_), *rclone_config(store_, {}),
                    rclone_place(store_, root_of(place_))};
    data.size = size;
    return stage_of(data);
  }
  StagedTree stage_of(const StagedData& data) const {
    return stage_data(data, text_, (folder_ / "cache").string(), "n1", tell_nobody);
  }
  std::string bytes_of(const StagedTree& staged, const std::string& name) const {
    std::ifstream in(staged.path + "/" + name, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  std::string why_not_uploaded(const std::string& name) const {
    const auto done =
        upload_tree((folder_ / name).string(), {store_, "up/" + name, true}, {}, "here");
    return done ? "" : done.error().message;
  }
  Status upload(const std::string& folder) const {
    return upload_tree(folder_ / folder, {store_, "out", false}, {}, "here");
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

// Stands before the real one in PATH: a script that does as a test says.
class FakeRclone {
 public:
  explicit FakeRclone(const std::string& script) {
    folder_.write("rclone", "#!/bin/sh\n" + script, 0755);
    ::setenv("PATH", (folder_.path().string() + ":" + before_).c_str(), 1);
  }
  ~FakeRclone() { ::setenv("PATH", before_.c_str(), 1); }
  FakeRclone(const FakeRclone&) = delete;
  FakeRclone& operator=(const FakeRclone&) = delete;

 private:
  Folder folder_;
  std::string before_ = ::getenv("PATH");
};

const std::string listing =
    R"(echo '['; echo '{"Path":"a","Size":1,"ModTime":"2024-05-06T07:08:09Z"},'; )";

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

TEST_CASE("bytes of another MD5 than the listed one are not taken") {
  if (!has_rclone()) return;
  StageSite site;
  site.put("a", "hello");
  REQUIRE(site.list());
  site.say_md5(std::string(32, '0'));
  const StagedTree staged = site.stage();
  REQUIRE(staged.failure);
  CHECK(staged.failure->is_lasting);
  CHECK(mentions(staged.failure->message, "has another content (MD5)"));
  site.say_md5("5d41402abc4b2a76b9719d911017c592");
  CHECK(!site.stage().failure);
}

TEST_CASE("a list that is not the one of the submission is refused") {
  if (!has_rclone()) return;
  StageSite site;
  site.put("a", "hello");
  REQUIRE(site.list());
  StagedData data{"data", content_hash_of("another list"), "", ""};
  const StagedTree staged = site.stage_of(data);
  REQUIRE(staged.failure);
  CHECK(mentions(staged.failure->message, "damaged on node n1"));
}

TEST_CASE("a store that refuses these credentials fails the job, one that is away the attempt") {
  StageSite site;
  {
    const FakeRclone one(listing);
    REQUIRE(site.list());
  }
  const FakeRclone refuses(
      R"(echo '{"level":"error","msg":"GET x: 403 AuthenticationFailed"}' >&2; exit 1)");
  StagedTree staged = site.stage();
  REQUIRE(staged.failure);
  CHECK(staged.failure->is_lasting);
  const FakeRclone is_away(
      R"(echo '{"level":"error","msg":"dial tcp: connection refused"}' >&2; exit 1)");
  staged = site.stage();
  REQUIRE(staged.failure);
  CHECK(!staged.failure->is_lasting);
  CHECK(mentions(staged.failure->message, "connection refused"));
}

TEST_CASE("a list that breaks off is no list, whatever rclone says is not there") {
  StageSite site;
  const FakeRclone breaks(listing +
                          R"(echo '{"level":"error","msg":"directory not found"}' >&2; exit 3)");
  CHECK(!site.list());
  CHECK(mentions(site.why(), "directory not found"));
}

TEST_CASE("variables of the user's change nothing of what rclone does") {
  ::setenv("RCLONE_MAX_SIZE", "1", 1);
  const FakeRclone tells("env | grep -q ^RCLONE_ && exit 1; exit 0");
  CHECK(!run_rclone({{"version"}, ""}));
  ::unsetenv("RCLONE_MAX_SIZE");
}

TEST_CASE("a link of an output is copied as what it leads to, but not out of the output") {
  if (!has_rclone()) return;
  const StageSite site;
  site.folder().write("secret", "k3y");
  site.folder().write("output/last.pt", "weights");
  site.folder().link("output/best.pt", "last.pt");
  CHECK(site.upload("output"));
  CHECK(site.folder().read("store/out/best.pt") == "weights");
  site.folder().link("output/stolen", "../secret");
  const Status copied = site.upload("output");
  REQUIRE(!copied);
  CHECK(mentions(copied.error().message, "'stolen' does not lead to a file of the output"));
  CHECK(!std::filesystem::exists(site.folder() / "store/out/stolen"));
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

TEST_CASE("of an output that is one file and a link, what it leads to is copied") {
  if (!has_rclone()) return;
  StageSite site;
  site.folder().write("out/epoch3", "weights");
  site.folder().write("secret", "of who copies");
  site.folder().link("out/last", "epoch3");
  site.folder().link("out/away", "../secret");
  site.folder().link("out/circle", "circle");
  CHECK(site.why_not_uploaded("out/last").empty());
  CHECK(site.folder().read("store/up/out/last") == "weights");
  for (const char* name : {"out/away", "out/circle"}) {
    CHECK(site.why_not_uploaded(name) == "it is a link that does not lead to a file beside it");
    CHECK_FALSE(std::filesystem::exists(site.folder() / "store/up" / name));
  }
}

}  // namespace muster
