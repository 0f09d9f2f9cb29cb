#include "launcher/staging/file_sink.h"

#include <sched.h>
#include <sys/mount.h>

#include <algorithm>

#include "tests/launcher/staging/trees.h"

namespace muster {

namespace {

namespace fs = std::filesystem;

FileSink sink_in(const Folder& folder) {
  auto sink = FileSink::open(folder / "job", {"outputs", "logs"});
  REQUIRE(sink);
  return std::move(*sink);
}

Status send(FileSink& sink, int node, const std::string& path, const std::string& content) {
  return sink.accept(node, a_file(path, {}), 0, content, true);
}

}  // namespace

TEST_CASE("of differing copies the lowest node's keeps the name, whatever came first") {
  Folder folder;
  FileSink sink = sink_in(folder);
  REQUIRE(send(sink, 2, "outputs/m", "two"));
  REQUIRE(send(sink, 0, "outputs/m", "zero"));
  REQUIRE(send(sink, 1, "outputs/m", "zero"));
  REQUIRE(sink.finish());
  CHECK(folder.list("job/outputs") == std::set<std::string>{"m", "m.node2"});
  CHECK(folder.read("job/outputs/m") == "zero");
  CHECK(folder.read("job/outputs/m.node2") == "two");
  REQUIRE(sink.problems().size() == 1);
  CHECK_THAT(sink.problems()[0], ContainsSubstring("'outputs/m' differs between nodes"));
}

TEST_CASE("files of an earlier collection are replaced, and their stale copies go") {
  Folder folder;
  folder.write("job/outputs/m", "old");
  folder.write("job/outputs/m.node1", "old of node 1");
  FileSink sink = sink_in(folder);
  REQUIRE(send(sink, 0, "outputs/m", "new"));
  REQUIRE(send(sink, 1, "outputs/m", "new"));
  REQUIRE(sink.finish());
  CHECK(folder.list("job/outputs") == std::set<std::string>{"m"});
  CHECK(folder.read("job/outputs/m") == "new");
}

TEST_CASE("files of a node that leaves are in place at once, those of the others go on arriving") {
  Folder folder;
  FileSink sink = sink_in(folder);
  REQUIRE(sink.accept(0, a_file("outputs/late", {}), 0, "be", false));
  REQUIRE(send(sink, 2, "outputs/m", "of the one that leaves"));
  REQUIRE(sink.finish_node(2));
  CHECK(folder.read("job/outputs/m") == "of the one that leaves");
  REQUIRE(sink.accept(0, a_file("outputs/late", {}), 2, "gun", true));
  REQUIRE(send(sink, 0, "outputs/m", "of one that stays"));
  REQUIRE(sink.finish());
  CHECK(folder.read("job/outputs/late") == "begun");
  CHECK(folder.read("job/outputs/m") == "of the one that leaves");
  CHECK(folder.read("job/outputs/m.node0") == "of one that stays");
}

TEST_CASE("what a node delivered that left stays, also for the collections of later controllers") {
  Folder folder;
  folder.write("job/outputs/old", "of an earlier attempt");
  FileSink first = sink_in(folder);
  REQUIRE(send(first, 1, "outputs/m", "one"));
  REQUIRE(send(first, 1, "outputs/same", "same"));
  REQUIRE(first.finish_node(1));
  REQUIRE(save_settled(folder / "job/attempt-0/settled.json", first.settled()));
  for (int tries = 0; tries < 2; ++tries) {
    const auto earlier = load_settled(folder / "job/attempt-0/settled.json");
    REQUIRE(earlier);
    auto later = FileSink::open(folder / "job", {"outputs", "logs"}, *earlier);
    REQUIRE(later);
    REQUIRE(send(*later, 0, "outputs/m", "zero"));
    REQUIRE(send(*later, 0, "outputs/same", "same"));
    REQUIRE(send(*later, 0, "outputs/old", "new"));
    REQUIRE(later->finish());
  }
  CHECK(folder.list("job/outputs") == std::set<std::string>{"m", "m.node0", "old", "same"});
  CHECK(folder.read("job/outputs/m") == "one");
  CHECK(folder.read("job/outputs/m.node0") == "zero");
  CHECK(folder.read("job/outputs/old") == "new");
}

TEST_CASE("a collection that is not finished changes nothing") {
  Folder folder;
  folder.write("job/outputs/m", "old");
  {
    FileSink sink = sink_in(folder);
    REQUIRE(send(sink, 0, "outputs/m", "new"));
  }
  CHECK(folder.list("job") == std::set<std::string>{"outputs/", "outputs/m"});
  CHECK(folder.read("job/outputs/m") == "old");
}

TEST_CASE("a file without its last piece is not kept") {
  Folder folder;
  FileSink sink = sink_in(folder);
  REQUIRE(sink.accept(0, a_file("outputs/half", {}), 0, "begin", false));
  REQUIRE(sink.finish());
  CHECK(folder.list("job").empty());
}

TEST_CASE("on a full disk nothing is kept of the file that does not fit") {
  Folder folder;
  folder.directory("job");
  if (::unshare(CLONE_NEWNS) != 0 ||
      ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
      ::mount("none", (folder / "job").c_str(), "tmpfs", 0, "size=2m") != 0) {
    WARN("no small file system can be mounted here: not tested");
    return;
  }
  FileSink sink = sink_in(folder);
  const std::string piece(1 << 20, 'x');
  const TreeEntry file = a_file("outputs/large", {});
  REQUIRE(sink.accept(0, file, 0, piece, false));
  Status taken = sink.accept(0, file, 1 << 20, piece, false);
  if (taken) taken = sink.accept(0, file, 2 << 20, piece, false);
  REQUIRE_FALSE(taken);
  CHECK_THAT(taken.error().message, ContainsSubstring("outputs/large"));
  CHECK(fs::space(folder / "job").available > (1 << 20) + (1 << 19));
  CHECK_FALSE(sink.accept(0, file, 3 << 20, "x", true));
  REQUIRE(sink.accept(0, a_file("outputs/small", {}), 0, "fits", true));
  REQUIRE(sink.finish());
  CHECK(folder.read("job/outputs/small") == "fits");
  ::umount((folder / "job").c_str());
}

TEST_CASE("a file that begins again replaces its first try; a piece out of order is refused") {
  Folder folder;
  FileSink sink = sink_in(folder);
  const TreeEntry file = a_file("outputs/f", {});
  REQUIRE(sink.accept(0, file, 0, "first try", false));
  REQUIRE(sink.accept(0, file, 0, "ab", false));
  const Status gap = sink.accept(0, file, 5, "x", false);
  REQUIRE_FALSE(gap);
  CHECK(gap.error().message == "a piece of 'outputs/f' at offset 5 from node 0 came out of order");
  CHECK_FALSE(sink.accept(1, file, 2, "c", true));
  REQUIRE(sink.accept(0, file, 2, "c", true));
  REQUIRE(sink.finish());
  CHECK(folder.read("job/outputs/f") == "abc");
}

TEST_CASE("paths outside the folders for results are refused") {
  Folder folder;
  folder.write("job/spec.json", "mine");
  FileSink sink = sink_in(folder);
  for (const char* bad : {"spec.json", "../x", "/etc/passwd", "outputs/../spec.json", "outputs",
                          ".incoming/0", "outputs/./x", ""}) {
    INFO(bad);
    CHECK_FALSE(send(sink, 0, bad, "evil"));
  }
  CHECK_FALSE(sink.accept(0, a_link("outputs", "/"), 0, "", true));
  REQUIRE(sink.finish());
  CHECK(folder.read("job/spec.json") == "mine");
}

TEST_CASE("nothing is written through a link, wherever it came from") {
  Folder folder;
  folder.directory("outside");
  folder.link("job/outputs/there", (folder / "outside").string());
  FileSink sink = sink_in(folder);
  REQUIRE(sink.accept(0, a_link("outputs/sent", "../../outside"), 0, "", true));
  REQUIRE(sink.accept(0, a_link("outputs/inner", "sub"), 0, "", true));
  REQUIRE(send(sink, 0, "outputs/sent/x", "evil"));
  REQUIRE(send(sink, 0, "outputs/inner/x", "odd"));
  REQUIRE(send(sink, 0, "outputs/there/x", "evil"));
  REQUIRE(send(sink, 0, "outputs/zz", "fine"));
  CHECK_FALSE(sink.finish());
  CHECK(folder.list("outside").empty());
  CHECK(folder.read("job/outputs/zz") == "fine");
  const auto& problems = sink.problems();
  CHECK(std::any_of(problems.begin(), problems.end(), [](const std::string& problem) {
    return problem.find("'outputs/sent' of node 0 is skipped") != std::string::npos;
  }));
}

TEST_CASE("links that stay inside their folder are kept, others are left out") {
  Folder folder;
  FileSink sink = sink_in(folder);
  REQUIRE(sink.accept(0, a_link("outputs/d/good", "../m"), 0, "", true));
  REQUIRE(sink.accept(0, a_link("outputs/d/out", "../../spec.json"), 0, "", true));
  REQUIRE(sink.accept(0, a_link("outputs/abs", "/etc/passwd"), 0, "", true));
  // Out by way of another link: counted by names it stays inside.
  REQUIRE(sink.accept(0, a_link("outputs/d/up", ".."), 0, "", true));
  REQUIRE(sink.accept(0, a_link("outputs/d/way", "up/../.."), 0, "", true));
  REQUIRE(sink.finish());
  CHECK(folder.list("job/outputs") == std::set<std::string>{"d/", "d/good", "d/up"});
  CHECK(sink.problems().size() == 3);
}

TEST_CASE("a file of one node and a directory of another both survive") {
  Folder folder;
  FileSink sink = sink_in(folder);
  REQUIRE(send(sink, 0, "outputs/x", "file"));
  REQUIRE(sink.accept(1, a_directory("outputs/x"), 0, "", true));
  REQUIRE(sink.accept(1, a_directory("outputs/x/sub"), 0, "", true));
  REQUIRE(send(sink, 1, "outputs/x/sub/inner", "of node 1"));
  REQUIRE(sink.accept(0, a_directory("outputs/y"), 0, "", true));
  REQUIRE(send(sink, 1, "outputs/y", "file of node 1"));
  REQUIRE(sink.finish());
  CHECK(folder.read("job/outputs/x") == "file");
  CHECK(folder.read("job/outputs/x.node1/sub/inner") == "of node 1");
  CHECK(folder.read("job/outputs/y.node1") == "file of node 1");
  CHECK(sink.problems().size() == 2);
}

TEST_CASE("directories come with their modes, are the owner's, and count among what is in place") {
  Folder folder;
  FileSink sink = sink_in(folder);
  REQUIRE(sink.accept(0, a_directory("outputs"), 0, "", true));
  REQUIRE(sink.accept(0, a_directory("outputs/closed", 0), 0, "", true));
  REQUIRE(sink.accept(0, a_directory("outputs/closed/deep", 0750), 0, "", true));
  REQUIRE(sink.accept(0, a_directory("outputs/odd", 04777), 0, "", true));
  REQUIRE(send(sink, 0, "outputs/closed/deep/f", "x"));
  REQUIRE(sink.accept(0, a_link("outputs/l", "odd"), 0, "", true));
  REQUIRE(sink.finish());
  CHECK(folder.mode("job/outputs/closed") == 0700);
  CHECK(folder.mode("job/outputs/closed/deep") == 0750);
  CHECK(folder.mode("job/outputs/odd") == 0777);
  CHECK(folder.read("job/outputs/closed/deep/f") == "x");
  const SettledFiles expected{{"outputs", "directory"},
                              {"outputs/closed", "directory"},
                              {"outputs/closed/deep", "directory"},
                              {"outputs/closed/deep/f", "file " + content_hash_of("x")},
                              {"outputs/l", "link to odd"},
                              {"outputs/odd", "directory"}};
  CHECK(sink.settled() == expected);
  CHECK(sink.problems().empty());
}

TEST_CASE("a directory that cannot be made is an error, and the rest is in place all the same") {
  Folder folder;
  folder.directory("outside");
  folder.link("job/outputs/d", (folder / "outside").string());
  FileSink sink = sink_in(folder);
  REQUIRE(sink.accept(1, a_directory("outputs/d"), 0, "", true));
  REQUIRE(send(sink, 1, "outputs/d/f", "of node 1"));
  folder.link("job/outputs/e.node1", (folder / "outside").string());
  folder.write("job/outputs/e", "a file");
  REQUIRE(sink.accept(1, a_directory("outputs/e"), 0, "", true));
  REQUIRE(send(sink, 1, "outputs/z", "fine"));
  CHECK_FALSE(sink.finish());
  CHECK(folder.read("job/outputs/d.node1/f") == "of node 1");  // beside the link
  CHECK(folder.read("job/outputs/z") == "fine");
  CHECK(folder.list("outside").empty());
}

TEST_CASE("what a crashed collection left is cleared away") {
  Folder folder;
  folder.write("job/.incoming/17", "left");
  FileSink sink = sink_in(folder);
  REQUIRE(sink.finish());
  CHECK_FALSE(fs::exists(folder / "job/.incoming"));
}

}  // namespace muster
