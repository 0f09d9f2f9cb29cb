#include "health/read/files.h"

#include <random>

#include "health/model/source_files.h"
#include "tests/catch.h"
#include "tests/health/fake_host.h"

using namespace muster;
using namespace std::chrono_literals;
using Paths = std::vector<std::string>;

namespace {

Paths paths_read(const ReadRequest& request) {
  Paths paths;
  read_files(request, {{}, [&](std::string path, FileReading) { paths.push_back(path); }});
  return paths;
}

}  // namespace

TEST_CASE("stars are filled in, in the order of the sources and then of the names") {
  const FakeRoot root;
  for (const char* path : {"/s/mc1/ue", "/s/mc0/ue", "/s/mc0/ce", "/s/other/ue", "/s/mc10/ue"})
    root.write(path, std::string(path) + "\n");
  ReadRequest request{root.path(), {"/s/mc*/ue", "/s/mc0/ce", "/s/mc[0-1]/ce", "/s"}};
  CHECK(paths_read(request) ==
        Paths{"/s", "/s/mc0/ue", "/s/mc1/ue", "/s/mc10/ue", "/s/mc0/ce", "/s/mc1/ce"});
  const SourceFiles files = read_files(request);
  CHECK(files.text("/s/mc1/ue") == "/s/mc1/ue");
  CHECK(files.reading("/s").ok());
  CHECK(files.reading("/s/mc1/ce").is_missing);
}

TEST_CASE("directories answer, links lead somewhere, and what is absent is missing") {
  const FakeRoot root;
  root.write("/d/file", "x");
  std::filesystem::create_symlink("../d/file", root.below("/d/link"));
  const SourceFiles files = read_files(
      {root.path(), {"/d", "/d/link", "/d/link@", "/d/file@", "/none", "/none/*/x", "/d/file/y"}});
  CHECK(files.reading("/d").ok());
  CHECK(files.text("/d/link") == "x");
  CHECK(files.text("/d/link@") == "../d/file");
  CHECK_FALSE(files.reading("/d/file@").ok());
  CHECK_FALSE(files.reading("/d/file@").is_missing);
  CHECK(files.reading("/none").is_missing);
  CHECK(files.reading("/d/file/y").is_missing);
}

TEST_CASE("a root that is not there makes every source unreadable") {
  const SourceFiles files = read_files({"/no/such/root", {"/a", "/b/*/c", "adjtimex:"}});
  for (const char* path : {"/a", "/b", "adjtimex:"}) {
    CHECK_THAT(files.reading(path).error, ContainsSubstring("/no/such/root"));
    CHECK_FALSE(files.reading(path).is_missing);
  }
}

TEST_CASE("binary texts are taken as they are, long ones are an error") {
  const FakeRoot root;
  const std::string binary("\0\xff\n\0z", 5);
  root.write("/binary", binary);
  root.write("/full", std::string(1000, 'f'));
  root.write("/long", std::string(1001, 'l'));
  ReadRequest request{root.path(), {"/binary", "/full", "/long"}};
  request.file_bytes_max = 1000;
  const SourceFiles files = read_files(request);
  CHECK(files.reading("/binary").text == binary);
  CHECK(files.reading("/full").ok());
  CHECK(files.reading("/long").error == "longer than 1000 bytes");
  CHECK(files.reading("/long").text.size() == 1000);
}

TEST_CASE("a reading has a limit of bytes and of files, and says what it left out") {
  const FakeRoot root;
  for (int at = 0; at < 9; ++at) root.write("/p/" + std::to_string(at), std::string(100, 'x'));
  root.write("/z", "z");
  ReadRequest request{root.path(), {"/p/*", "/z"}};
  request.total_bytes_max = 350;
  SourceFiles files = read_files(request);
  CHECK(files.reading("/p/2").ok());
  CHECK(files.reading("/p/8").is_missing);
  CHECK_THAT(files.reading("/p").error, ContainsSubstring("more than 350 bytes"));
  CHECK_THAT(files.reading("/z").error, ContainsSubstring("more than 350 bytes"));

  request.total_bytes_max = 1 << 20;
  request.readings_max = 5;
  files = read_files(request);
  CHECK_FALSE(files.reading("/p").ok());
  CHECK_FALSE(files.reading("/z").ok());
  CHECK(files.all().size() <= 7);
}

TEST_CASE("the kernel tells of space, limits and its clock by calls") {
  const SourceFiles files = read_files(
      {"/",
       {"statvfs:/", "rlimit:nofile", "rlimit:none", "adjtimex:", "open:/dev/nul[l]",
        "open:/dev/no-such", "stat:/proc", "nonsense:/x", "statvfs:/no/such", "", "relative"}});
  CHECK(probe_number(files.reading("statvfs:/").text, "bytes").value_or(0) > 0);
  CHECK(files.reading("rlimit:nofile").text.starts_with("soft "));
  CHECK(files.reading("rlimit:none").is_missing);
  CHECK(probe_number(files.reading("adjtimex:").text, "status"));
  CHECK(files.reading("open:/dev/null").ok());
  CHECK(files.reading("open:/dev/no-such").is_missing);
  CHECK(probe_number(files.reading("stat:/proc").text, "uid") == 0);
  CHECK_FALSE(files.reading("nonsense:/x").ok());
  CHECK(files.reading("statvfs:/no/such").is_missing);
}

TEST_CASE("below a root of its own a file may take the place of a call") {
  const FakeRoot root;
  root.write("/.probes/statvfs:%data", "bytes 10\n");
  root.write("/.probes/open:%dev%uverbs0", "error Permission denied\n");
  root.write("/dev/uverbs0", "");
  root.write("/dev/uverbs1", "");
  const SourceFiles files =
      read_files({root.path(), {"statvfs:/data", "open:/dev/uverbs*", "statvfs:/dev"}});
  CHECK(files.text("statvfs:/data") == "bytes 10");
  CHECK(files.reading("open:/dev/uverbs0").error == "Permission denied");
  CHECK(files.reading("open:/dev/uverbs1").ok());
  CHECK(probe_number(files.reading("statvfs:/dev").text, "bytes"));
}

TEST_CASE("what a source reads is known from its words") {
  CHECK(place_of("/proc/meminfo") == "/proc/meminfo");
  CHECK(place_of("/sys/mc/mc*/ue") == "/sys/mc");
  CHECK(place_of("stat:/dev/shm/nccl-*") == "/dev/shm");
  CHECK(place_of("statvfs:/tmp") == "statvfs:/tmp");
  CHECK(place_of("/*") == "/");
  CHECK(place_of("/a/link@") == "/a/link@");

  CHECK(covers("/sys/mc/mc*/ue", "/sys/mc/mc3/ue"));
  CHECK(covers("/sys/mc/mc*/ue", "/sys/mc"));
  CHECK(covers("stat:/dev/shm/*", "/dev/shm"));
  CHECK(covers("stat:/dev/shm/*", "stat:/dev/shm/x"));
  CHECK(covers("statvfs:/", "statvfs:/"));
  CHECK(covers("/*", "/"));
  CHECK_FALSE(covers("stat:/dev/shm/*", "/dev/shm/x"));
  CHECK_FALSE(covers("/sys/mc/mc*/ue", "/sys/mc/mc3"));
  CHECK_FALSE(covers("/sys/mc/mc*/ue", "/sys/mc/mc3/ue/x"));
  CHECK_FALSE(covers("/sys/mc/mc*/ue", "/sys/mc/mc3/ce"));
  CHECK_FALSE(covers("/a@", "/a"));
}

TEST_CASE("a reading that was not answered says for how long") {
  CHECK(unanswered_reading(5s).error == "no answer within 5 s");
  CHECK(unanswered_reading(1500ms).error == "no answer within 1500 ms");
  CHECK(did_not_answer(unanswered_reading(5s)));
  CHECK_FALSE(did_not_answer({{}, "not reached: /p/y: no answer within 5 s", false}));
}

TEST_CASE("a healthy host that was written to a directory is read as it was") {
  const FakeRoot root;
  const SourceFiles host = healthy_host();
  root.write(host);
  ReadRequest request{root.path(), {}};
  for (const auto& [path, reading] : host.all()) request.sources.push_back(path);
  const SourceFiles files = read_files(request);
  for (const auto& [path, reading] : host.all()) {
    INFO(path);
    CHECK(files.reading(path).text == reading.text);
    CHECK(files.reading(path).ok());
  }
}

TEST_CASE("sources of any bytes are read or refused") {
  const FakeRoot root;
  root.write("/a/b/c", "x");
  std::mt19937 random(7);
  const std::string letters = "/abc*[]@:-stat";
  for (int round = 0; round < 2000; ++round) {
    std::string source;
    for (std::uint32_t size = random() % 12; size > 0; --size)
      source += letters[random() % letters.size()];
    INFO(source);
    const SourceFiles files = read_files({root.path(), {source}});
    CHECK(files.all().size() <= 20);
    place_of(source);
    covers(source, "/a/b/c");
  }
}
