#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <map>
#include <sstream>
#include <thread>

#include "runtime/data/shard_cache.h"
#include "tests/catch.h"
#include "tests/runtime/a_dataset.h"

using namespace muster;
using namespace muster::test;

namespace {

namespace fs = std::filesystem;

// A reader of a dataset whose shards are copied to `cache`.
struct CachingReader {
  std::vector<std::string> warnings;
  TokenDataset dataset;
  std::unique_ptr<ShardTokens> line;
  std::unique_ptr<ShardCache> cache;

  CachingReader(const std::string& set, const std::string& directory, std::uint64_t limit = 0,
                std::size_t first = 0)
      : dataset(found_at(set)), line(opened(dataset, &warnings)) {
    cache = std::make_unique<ShardCache>(
        dataset, ShardCacheSettings{directory, limit, first}, *line,
        [this](const std::string& warning) { warnings.push_back(warning); });
    cache->wait_until_settled();
  }

  bool reads_rightly() const {
    std::vector<std::uint32_t> tokens(line->size());
    line->copy(0, tokens);
    for (std::uint64_t i = 0; i < tokens.size(); ++i) {
      if (tokens[i] != token_number(i, 500)) return false;
    }
    return true;
  }
};

std::vector<std::string> copies_in(const std::string& directory) {
  std::vector<std::string> copies;
  for (const fs::directory_entry& entry : fs::directory_iterator(directory)) {
    if (entry.path().extension() != ".lock") copies.push_back(entry.path().string());
  }
  std::sort(copies.begin(), copies.end());
  return copies;
}

constexpr std::uint64_t shard_bytes = 1024 + 600 + 5 * 8 + 8;  // at most, of 300 tokens

}  // namespace

TEST_CASE("shards are read from their copies when these are whole") {
  Folder folder;
  ADataset{folder / "set"}.write();
  const CachingReader reader(folder / "set", folder / "cache");
  CHECK(reader.cache->copies() == 4);
  CHECK(reader.line->path_of(2).starts_with(folder / "cache/"));
  CHECK(copies_in(folder / "cache").size() == 4);
  fs::remove_all(folder / "set");
  CHECK(reader.reads_rightly());
  CHECK(reader.warnings.empty());
}

TEST_CASE("several readers of one node share the copies, each made once") {
  Folder folder;
  ADataset{folder / "set", 20000, 1000}.write();
  const CachingReader first(folder / "set", folder / "cache");
  std::vector<ino_t> inodes;
  for (const std::string& copy : copies_in(folder / "cache")) {
    struct stat facts {};
    REQUIRE(::stat(copy.c_str(), &facts) == 0);
    inodes.push_back(facts.st_ino);
  }
  const CachingReader second(folder / "set", folder / "cache", 0, 10);
  CHECK(second.cache->copies() == 20);
  CHECK(second.reads_rightly());
  std::size_t at = 0;
  for (const std::string& copy : copies_in(folder / "cache")) {
    struct stat facts {};
    REQUIRE(::stat(copy.c_str(), &facts) == 0);
    CHECK(facts.st_ino == inodes[at++]);
  }
}

TEST_CASE("a copy that another process makes is waited for, not made twice") {
  Folder folder;
  ADataset{folder / "set", 300, 300}.write();
  { const CachingReader reader(folder / "set", folder / "cache"); }
  const std::string copy = copies_in(folder / "cache").at(0);
  const std::string lock = fs::path(copy).replace_extension(".lock");
  const int held = ::open(lock.c_str(), O_RDWR);
  REQUIRE(::flock(held, LOCK_EX) == 0);
  const TokenDataset dataset = found_at(folder / "set");
  const auto line = opened(dataset);
  ShardCache cache(dataset, {folder / "cache", 0, 0}, *line, {});
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (!cache.waits_for_others() && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::yield();
  }
  CHECK(cache.waits_for_others());
  CHECK(line->path_of(0) == dataset.shards[0].path);
  ::close(held);
  cache.wait_until_settled();
  CHECK(line->path_of(0) == copy);
}

TEST_CASE("a damaged copy is found at the next run, said once, and made again") {
  Folder folder;
  ADataset{folder / "set"}.write();
  { const CachingReader reader(folder / "set", folder / "cache"); }
  for (const std::string& copy : copies_in(folder / "cache")) damage(copy, 1200);
  const CachingReader reader(folder / "set", folder / "cache");
  CHECK(reader.reads_rightly());
  REQUIRE(reader.warnings.size() == 1);
  CHECK_THAT(reader.warnings[0], ContainsSubstring("the copy is not good"));
  CHECK(reader.cache->copies() == 4);
}

TEST_CASE("a copy that becomes unreadable is given up for the file itself") {
  Folder folder;
  ADataset{folder / "set", 300000, 300000}.write();
  CachingReader reader(folder / "set", folder / "cache");
  REQUIRE(reader.cache->copies() == 1);
  fs::resize_file(copies_in(folder / "cache").at(0), 4096);
  CHECK(reader.reads_rightly());
  REQUIRE(reader.warnings.size() == 1);
  CHECK_THAT(reader.warnings[0], ContainsSubstring("cannot be read any more"));
}

TEST_CASE("the copies stay under the limit, and what does not fit stays where it is") {
  Folder folder;
  ADataset{folder / "set"}.write();
  const CachingReader reader(folder / "set", folder / "cache", 2 * shard_bytes + 10);
  CHECK(reader.cache->copies() == 2);
  CHECK(copies_in(folder / "cache").size() == 2);
  CHECK(reader.reads_rightly());
  CHECK(reader.warnings.empty());
}

TEST_CASE("room is made by removing the copy used longest ago") {
  Folder folder;
  const std::string cache = folder / "cache";
  std::map<std::string, std::string> copies;
  for (const std::string name : {"a", "b", "c"}) {
    ADataset{folder / name, name == "a" ? 300u : name == "b" ? 299u : 298u, 300}.write();
    const CachingReader reader(folder / name, cache, 3 * shard_bytes + 10);
    copies[name] = reader.line->path_of(0);
  }
  for (const auto& [name, hours] : std::map<std::string, int>{{"a", 2}, {"b", 3}, {"c", 1}}) {
    fs::last_write_time(fs::path(copies[name]).replace_extension(".lock"),
                        fs::file_time_type::clock::now() - std::chrono::hours(hours));
  }
  ADataset{folder / "d", 297, 300}.write();
  const CachingReader reader(folder / "d", cache, 3 * shard_bytes + 10);
  CHECK(reader.cache->copies() == 1);
  CHECK(fs::exists(copies["a"]));
  CHECK_FALSE(fs::exists(copies["b"]));
  CHECK(fs::exists(copies["c"]));
}

TEST_CASE("a copy that is being read is not removed, however old") {
  Folder folder;
  ADataset{folder / "a", 300, 300}.write();
  ADataset{folder / "b", 299, 300}.write();
  const CachingReader a(folder / "a", folder / "cache", shard_bytes + 10);
  CHECK(a.cache->copies() == 1);
  const CachingReader b(folder / "b", folder / "cache", shard_bytes + 10);
  CHECK(b.cache->copies() == 0);
  CHECK(fs::exists(a.line->path_of(0)));
  CHECK(b.reads_rightly());
  CHECK(b.warnings.empty());
}

TEST_CASE("what a killed process left half copied is not taken for a copy, nor kept") {
  Folder folder;
  ADataset{folder / "set", 300, 300}.write();
  put(folder / "cache/0123.tmp", std::string(5000, 'x'));
  put(folder / "cache/0123.lock", "");
  const CachingReader reader(folder / "set", folder / "cache", 5100);
  CHECK(reader.cache->copies() == 1);
  CHECK_FALSE(fs::exists(folder / "cache/0123.tmp"));
}

TEST_CASE("a full disk is said once, and the tokens come from the files themselves") {
  Folder folder;
  ADataset{folder / "set"}.write();
  const auto before = ::signal(SIGXFSZ, SIG_IGN);
  struct rlimit old {};
  REQUIRE(::getrlimit(RLIMIT_FSIZE, &old) == 0);
  const struct rlimit small { 1000, old.rlim_max };
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &small) == 0);
  const CachingReader reader(folder / "set", folder / "cache");
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &old) == 0);
  ::signal(SIGXFSZ, before);
  CHECK(reader.cache->copies() == 0);
  CHECK(reader.reads_rightly());
  REQUIRE(reader.warnings.size() == 1);
  CHECK_THAT(reader.warnings[0], ContainsSubstring("these tokens are read from where they are"));
  CHECK(copies_in(folder / "cache").empty());
}

TEST_CASE("a damaged file is not copied") {
  Folder folder;
  const ADataset set{folder / "set", 300, 300};
  set.write();
  damage(set.shard(0), 1030);
  const CachingReader reader(folder / "set", folder / "cache");
  CHECK(reader.cache->copies() == 0);
  REQUIRE(reader.warnings.size() == 1);
  CHECK_THAT(reader.warnings[0], ContainsSubstring("tokens-000000.bin: byte 0: the checksum"));
}

TEST_CASE("a directory that cannot be made costs a warning, not the run") {
  Folder folder;
  ADataset{folder / "set"}.write();
  put(folder / "file", "no directory");
  const CachingReader reader(folder / "set", folder / "file/cache");
  CHECK(reader.warnings.size() == 1);
  CHECK(reader.reads_rightly());
}

// Its word is in the lock file of the copy.
TEST_CASE("a copy that another process found good since the start is believed, no older word is") {
  Folder folder;
  ADataset{folder / "set", 300, 300}.write();
  { const CachingReader reader(folder / "set", folder / "cache"); }
  const std::string copy = copies_in(folder / "cache").at(0);
  const std::string lock = fs::path(copy).replace_extension(".lock");
  struct stat facts {};
  REQUIRE(::stat(copy.c_str(), &facts) == 0);
  const std::string inode = std::to_string(facts.st_ino);
  const std::string other = std::to_string(facts.st_ino + 1);
  const std::string now = "9999999999999999999";
  bool is_believed = false;
  std::string word;
  SECTION("since the start") {
    word = inode + " " + now + "\n";
    is_believed = true;
  }
  SECTION("before") {
    word = inode + " 1000\n";
  }
  SECTION("of another file") {
    word = other + " " + now + "\n";
  }
  SECTION("half a word") {
    word = inode + "\n";
  }
  SECTION("no word") {}
  put(lock, word);
  damage(copy, 1200);  // since then: who believes does not see it
  const CachingReader reader(folder / "set", folder / "cache");
  CHECK(reader.cache->copies() == 1);
  CHECK(reader.warnings.empty() == is_believed);
  CHECK(reader.reads_rightly() == !is_believed);
}

TEST_CASE("who finds a copy good leaves word of it, of which file and when") {
  Folder folder;
  ADataset{folder / "set", 300, 300}.write();
  using std::chrono::system_clock;
  const auto ns = [] {
    return static_cast<unsigned long long>(system_clock::now().time_since_epoch() /
                                           std::chrono::nanoseconds(1));
  };
  const auto before = ns();
  { const CachingReader reader(folder / "set", folder / "cache"); }
  const std::string copy = copies_in(folder / "cache").at(0);
  struct stat facts {};
  REQUIRE(::stat(copy.c_str(), &facts) == 0);
  std::istringstream word(content_of(fs::path(copy).replace_extension(".lock")));
  unsigned long long inode = 0, at_ns = 0;
  REQUIRE(word >> inode >> at_ns);
  CHECK(inode == facts.st_ino);
  CHECK(at_ns >= before);
  CHECK(at_ns <= ns());
}
