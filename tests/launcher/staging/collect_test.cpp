
#include <fcntl.h>
#include <sys/stat.h>

#include <map>

#include "launcher/staging/file_sink.h"
#include "tests/launcher/staging/trees.h"

namespace muster {

namespace {

CollectReader reader_of(const Folder& folder, const std::string& job = "job") {
  auto reader = CollectReader::open(folder / job, {"outputs", "logs"});
  REQUIRE(reader);
  return std::move(*reader);
}

}  // namespace

TEST_CASE("everything below the folders is sent in order, big files in pieces") {
  Folder folder;
  folder.write("job/outputs/model", "0123456789", 0755);
  folder.write("job/outputs/sub/empty", "");
  folder.link("job/outputs/latest", "model");
  folder.write("job/code/not-sent", "x");
  CollectReader reader = reader_of(folder);

  std::map<std::string, std::string> content;
  std::vector<std::string> order;
  while (auto piece = reader.next(4)) {
    CHECK(piece->bytes.size() <= 4);
    CHECK(static_cast<std::int64_t>(content[piece->entry.path].size()) == piece->offset);
    content[piece->entry.path] += piece->bytes;
    if (piece->last) order.push_back(piece->entry.path);
  }
  CHECK(order == std::vector<std::string>{"outputs", "outputs/latest", "outputs/model",
                                          "outputs/sub", "outputs/sub/empty"});
  CHECK(content["outputs/model"] == "0123456789");
  CHECK(reader.entries()[1].target == "model");
  CHECK(reader.problems().empty());
}

TEST_CASE("a file whose size is a multiple of the piece ends with it") {
  Folder folder;
  folder.write("job/logs/a", "12345678");
  CollectReader reader = reader_of(folder);
  REQUIRE(reader.next(4)->entry.path == "logs");
  CHECK_FALSE(reader.next(4)->last);
  CHECK(reader.next(4)->last);
  CHECK_FALSE(reader.next(4));
}

TEST_CASE("a file that grows is sent up to its old size, one that vanished is a problem") {
  Folder folder;
  folder.write("job/logs/gone", "x");
  folder.write("job/logs/grows", "123");
  CollectReader reader = reader_of(folder);
  std::filesystem::remove(folder / "job/logs/gone");
  folder.write("job/logs/grows", "123456");
  REQUIRE(reader.next(100)->entry.path == "logs");
  const auto grown = reader.next(100);
  REQUIRE(grown);
  CHECK(grown->entry.path == "logs/grows");
  CHECK(grown->bytes == "123");
  CHECK(grown->last);
  REQUIRE(reader.problems().size() == 1);
  CHECK_THAT(reader.problems()[0], ContainsSubstring("logs/gone': No such file"));
}

TEST_CASE("pipes are not sent, and links are sent as links") {
  Folder folder;
  folder.directory("job/outputs");
  REQUIRE(::mkfifo((folder / "job/outputs/pipe").c_str(), 0600) == 0);
  folder.link("job/outputs/passwd", "/etc/passwd");
  CollectReader reader = reader_of(folder);
  REQUIRE(reader.entries().size() == 2);
  CHECK(reader.entries()[1].entry_kind == TreeEntry::Kind::link);
  CHECK(reader.problems().empty());
  REQUIRE(reader.left_out().size() == 1);
  CHECK_THAT(reader.left_out()[0], ContainsSubstring("not a regular file"));
}

TEST_CASE("directories too deep for a path are named once and hold up nothing else") {
  Folder folder;
  folder.write("job/outputs/z", "kept");
  const std::string name(250, 'd');
  int at = ::open((folder / "job/outputs").c_str(), O_RDONLY | O_DIRECTORY);
  for (int depth = 0; depth < 20; ++depth) {
    REQUIRE(::mkdirat(at, name.c_str(), 0755) == 0);
    const int below = ::openat(at, name.c_str(), O_RDONLY | O_DIRECTORY);
    ::close(at);
    at = below;
  }
  ::close(at);
  CollectReader reader = reader_of(folder);
  REQUIRE(reader.problems().size() == 1);
  CHECK_THAT(reader.problems()[0], ContainsSubstring("is not sent: its path has more than"));
  bool sent_the_file = false;
  while (auto piece = reader.next(100)) sent_the_file |= piece->entry.path == "outputs/z";
  CHECK(sent_the_file);
}

TEST_CASE("a folder full of pipes gives a few problems and their number") {
  Folder folder;
  folder.directory("job/outputs");
  for (int i = 0; i < 50; ++i) {
    REQUIRE(::mkfifo((folder / ("job/outputs/p" + std::to_string(i))).c_str(), 0644) == 0);
  }
  const CollectReader reader = reader_of(folder);
  REQUIRE(reader.left_out().size() == 21);
  CHECK(reader.left_out().back() == "and 30 more such problems");
}

TEST_CASE("a folder that became a link to elsewhere is not entered") {
  Folder folder;
  folder.write("secret/key", "x");
  folder.write("job/outputs/dir/key", "mine");
  CollectReader reader = reader_of(folder);
  std::filesystem::rename(folder / "job/outputs/dir", folder / "moved");
  folder.link("job/outputs/dir", (folder / "secret").string());
  while (auto piece = reader.next(100)) CHECK(piece->bytes.empty());
  CHECK(reader.problems().size() == 1);
}

TEST_CASE("what one side sends the other side holds") {
  Folder folder;
  folder.write("job/outputs/a/model", std::string(300'000, 'm'), 0755);
  folder.write("job/outputs/\xff", "odd");
  folder.link("job/outputs/latest", "a");
  folder.directory("job/logs/none");
  CollectReader reader = reader_of(folder);
  auto sink = FileSink::open(folder / "home", {"outputs", "logs"});
  REQUIRE(sink);
  while (auto piece = reader.next(65536)) {
    REQUIRE(sink->accept(0, piece->entry, piece->offset, piece->bytes, piece->last));
  }
  REQUIRE(sink->finish());
  CHECK(folder.list("home") == folder.list("job"));
  CHECK(folder.read("home/outputs/latest/model") == std::string(300'000, 'm'));
  CHECK(folder.mode("home/outputs/a/model") == 0755);
  CHECK(sink->problems().empty());
}

}  // namespace muster
