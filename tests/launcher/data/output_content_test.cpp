// What a store has at an output's path, brought to a node with the real rclone from a directory of
// this machine as its store.

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <map>
#include <random>

#include "launcher/data/output_content.h"
#include "launcher/data/rclone.h"
#include "scheduler/text/text.h"
#include "tests/catch.h"
#include "tests/launcher/staging/folder.h"
#include "tests/skip.h"

namespace muster {
namespace {

void tell_no_one(std::string_view) {}

// One node of a job with the output `model`.
class OutputSite {
 public:
  OutputSite() {
    store_.name = "dir";
    store_.type = DatastoreType::rclone;
    store_.remote = "local";
    store_.path = (folder_ / "store").string();
    folder_.directory("store");
    folder_.directory("job");
  }

  const Folder& folder() const { return folder_; }
  void put(const std::string& name, const std::string& content) const {
    folder_.write("store/" + name, content);
  }
  void write(const std::string& name, const std::string& content) const {
    folder_.write("job/outputs/model/" + name, content);
  }
  std::string read(const std::string& name) const {
    return folder_.read("job/outputs/model/" + name);
  }

  // As at the start of an attempt; why not.
  std::string bring(const std::string& path = "", bool is_file = false) const {
    StagedData output{"model", store_identity(store_), *rclone_config(store_, {}),
                      rclone_place(store_, path)};
    output.how = "output";
    output.is_file = is_file;
    auto content = look_at_output(output, folder_ / "job", "n1", tell_no_one);
    if (!content) return content.error().message;
    StagedTree staged;
    if (!content->missing.files.empty()) {
      staged = stage_data(content->data, data_manifest_text(content->missing),
                          (folder_ / "cache").string(), "n1", tell_no_one);
    }
    if (staged.failure) return staged.failure->message;
    const Status laid = lay_output(*content, folder_ / "job", staged.path, false, tell_no_one);
    return laid ? "" : laid.error().message;
  }

  // What is sent when outputs are collected: path below the output, content.
  std::map<std::string, std::string> collect() const {
    auto known = left_as_laid(folder_ / "job");
    REQUIRE(known);
    auto reader = CollectReader::open(folder_ / "job", {"outputs"}, *known);
    REQUIRE(reader);
    std::map<std::string, std::string> sent;
    while (auto piece = reader->next(1 << 20)) {
      if (piece->entry.entry_kind == TreeEntry::Kind::directory) continue;
      sent[piece->entry.path.substr(std::string("outputs/").size())] += piece->bytes;
    }
    return sent;
  }

 private:
  Folder folder_;
  DatastoreSpec store_;
};

using Sent = std::map<std::string, std::string>;

bool can_upload() {
  if (!rclone_program().empty()) return true;
  skip_test("no rclone");
  return false;
}

}  // namespace

TEST_CASE("ranks find what the store has, and only what they write is collected") {
  if (!can_upload()) return;
  OutputSite site;
  site.put("a b/old.bin", "old");
  site.put("line\nfeed", "feed");
  site.put("log", "one\n");
  REQUIRE(site.bring().empty());
  CHECK(site.read("a b/old.bin") == "old");
  CHECK(site.read("line\nfeed") == "feed");
  CHECK(site.folder().mode("job/outputs/model/log") == 0644);
  CHECK(site.collect().empty());
  site.write("log", "one\ntwo\n");
  site.write("new", "n");
  std::filesystem::rename(site.folder() / "job/outputs/model/a b",
                          site.folder() / "job/outputs/model/c");
  CHECK(site.collect() ==
        Sent{{"model/c/old.bin", "old"}, {"model/log", "one\ntwo\n"}, {"model/new", "n"}});
  // The cache has bytes of its own, which nobody wrote to.
  std::filesystem::remove(site.folder() / "job/outputs/model/log");
  REQUIRE(site.bring().empty());
  CHECK(site.read("log") == "one\n");
}

TEST_CASE("a file that is written with the same size and time is collected all the same") {
  if (!can_upload()) return;
  OutputSite site;
  site.put("x", "same");
  REQUIRE(site.bring().empty());
  const auto path = site.folder() / "job/outputs/model/x";
  const auto time = std::filesystem::last_write_time(path);
  ::usleep(20'000);
  site.write("x", "SAME");
  std::filesystem::last_write_time(path, time);
  CHECK(site.collect() == Sent{{"model/x", "SAME"}});
}

TEST_CASE("a later attempt sees the store as it is then, and what ranks wrote stays") {
  if (!can_upload()) return;
  OutputSite site;
  for (const char* name : {"left", "taken", "theirs", "both"}) site.put(name, "first");
  REQUIRE(site.bring().empty());
  site.write("both", "of this node");
  site.write("made", "here");
  // Others, and the end of the attempt.
  site.put("theirs", "second");
  site.put("both", "of another node");
  site.put("made", "here");
  std::filesystem::last_write_time(site.folder() / "job/outputs/model/made",
                                   std::filesystem::last_write_time(site.folder() / "store/made"));
  std::filesystem::remove(site.folder() / "store/taken");
  REQUIRE(site.bring().empty());
  CHECK(site.read("left") == "first");
  CHECK(site.read("theirs") == "second");
  CHECK(site.read("taken") == "(no file)");
  CHECK(site.read("both") == "of this node");
  CHECK(site.collect() == Sent{{"model/both", "of this node"}});
}

TEST_CASE("what stands in the way is the ranks' and stays") {
  if (!can_upload()) return;
  OutputSite site;
  site.put("d/x", "of the store");
  site.put("e", "of the store");
  site.put("f/y", "of the store");
  site.write("d", "a file");
  site.write("e/z", "in a directory");
  site.folder().directory("elsewhere");
  site.folder().link("job/outputs/model/f", (site.folder() / "elsewhere").string());
  REQUIRE(site.bring().empty());
  CHECK(site.read("d") == "a file");
  CHECK(site.read("e/z") == "in a directory");
  CHECK(site.folder().list("elsewhere").empty());
}

TEST_CASE("one file as an output is laid under the output's name") {
  if (!can_upload()) return;
  OutputSite site;
  site.put("d/state.json", "{}");
  site.put("d/other", "x");
  REQUIRE(site.bring("d/state.json", true).empty());
  CHECK(site.folder().read("job/outputs/model") == "{}");
  CHECK(site.collect().empty());
  site.folder().write("job/outputs/model", "{1}");
  CHECK(site.collect() == Sent{{"model", "{1}"}});
}

TEST_CASE("nothing at the path is an empty output, a list that is damaged an error") {
  if (!can_upload()) return;
  OutputSite site;
  CHECK(site.bring("nowhere").empty());
  CHECK(site.collect().empty());
  site.folder().write("job/.present/model", "{");
  CHECK(!left_as_laid(site.folder() / "job"));
  CHECK(mentions(site.bring(), ".present/model"));
}

TEST_CASE("links to a mount are read through, and replaced by what is written") {
  if (!can_upload()) return;
  OutputSite site;
  site.put("d/x", "far");
  StagedData output{"model", "s", "[store]\ntype = local\n",
                    "store:" + (site.folder() / "store").string()};
  output.how = "output";
  auto content = look_at_output(output, site.folder() / "job", "n1", tell_no_one);
  REQUIRE(content);
  REQUIRE(lay_output(*content, site.folder() / "job", site.folder() / "store", true, tell_no_one));
  CHECK(site.read("d/x") == "far");
  CHECK(site.collect().empty());
  site.write("d/y", "near");
  std::filesystem::rename(site.folder() / "job/outputs/model/d/y",
                          site.folder() / "job/outputs/model/d/x");
  CHECK(site.collect() == Sent{{"model/d/x", "near"}});
  CHECK(site.folder().read("store/d/x") == "far");
}

TEST_CASE("what a killed laying left is laid again, and never taken for what ranks wrote") {
  if (!can_upload()) return;
  OutputSite site;
  std::mt19937 random(7);
  for (int i = 0; i < 30; ++i) {
    site.put("d/f" + std::to_string(i), std::string(200'000 + random() % 1000, 'a'));
  }
  for (int kills = 0; kills < 12; ++kills) {
    const pid_t child = ::fork();
    if (child == 0) ::_exit(site.bring().empty() ? 0 : 1);
    ::usleep(static_cast<useconds_t>(random() % 150'000));
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    const std::string one = "d/f" + std::to_string(random() % 30);
    site.put(one, std::string(200'000, static_cast<char>('b' + kills)));  // by another job
  }
  REQUIRE(site.bring().empty());
  CHECK(site.collect().empty());
  for (const std::string& name : site.folder().list("store/d")) {
    CAPTURE(name);
    CHECK((site.read("d/" + name) == site.folder().read("store/d/" + name)));
  }
}

}  // namespace muster
