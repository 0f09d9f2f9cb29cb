#include "launcher/data/cache.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "launcher/staging/content_hash.h"
#include "scheduler/text/text.h"
#include "tests/catch.h"
#include "tests/launcher/staging/folder.h"

namespace muster {
namespace {

std::string id_of(const std::string& name) {
  return content_hash_of(name);
}

// One file in a tree of its own, as staging leaves it.
DataManifest put_tree(const DataCache& cache, const Folder& folder, const std::string& name,
                      std::size_t bytes) {
  DataManifest manifest{
      "store", name, {{"file", static_cast<std::int64_t>(bytes), 1'000'000'007, ""}}};
  folder.write("fetched/" + name, std::string(bytes, 'x'));
  REQUIRE(cache.keep(folder / ("fetched/" + name), object_name(manifest, manifest.files[0]),
                     manifest.files[0]));
  std::filesystem::remove(folder / ("fetched/" + name));
  REQUIRE(cache.build(id_of(name), manifest));
  const auto held = cache.hold(id_of(name));
  REQUIRE(held);
  return manifest;
}

bool is_there(const DataCache& cache, const std::string& name) {
  return std::filesystem::exists(cache.tree(id_of(name)) / "file");
}

}  // namespace

TEST_CASE("what a mount may keep is said in Azure's words") {
  CHECK(mount_cache_bytes("4096", 0) == 4096);
  CHECK(mount_cache_bytes("512 MB", 0) == 512LL << 20);
  CHECK(mount_cache_bytes("5gb", 0) == 5LL << 30);
  CHECK(mount_cache_bytes("-1KB", 5000) == 3976);
  CHECK(mount_cache_bytes("-9000", 5000) == 0);
  for (const char* text :
       {"", "-", "MB", "5 xb", "1.5 GB", "9999999999999 TB", "99999999999999999999"}) {
    CHECK(!mount_cache_bytes(text, 5000));
  }
}

TEST_CASE("a share is of the disk or a number of bytes") {
  CHECK(share_of("80%", 1000) == 800);
  CHECK(share_of("100%", 1000) == 1000);
  CHECK(share_of("500gb", 1) == 500'000'000'000);
  CHECK(share_of("2gib", 1) == std::int64_t{2} << 30);
  CHECK(share_of("100", 1) == 100);
  for (const char* text : {"", "%", "101%", "5xb", "-1", "99999999999tb", "9x9", "5mfoo", "5m",
                           "5gbib", "5xib", "101 %", "5 gb"}) {
    CAPTURE(text);
    CHECK(!share_of(text, 1000));
  }
}

TEST_CASE("a tree is made of objects that nobody may write to") {
  const Folder folder;
  const auto cache = DataCache::open(folder / "cache");
  REQUIRE(cache);
  const DataManifest manifest = put_tree(*cache, folder, "one", 5);
  CHECK(cache->is_whole(id_of("one"), manifest));
  struct stat facts {};
  REQUIRE(::stat((cache->tree(id_of("one")) / "file").c_str(), &facts) == 0);
  CHECK((facts.st_mode & 0777) == 0444);
  CHECK(facts.st_nlink == 2);
  REQUIRE(::stat((folder / "cache").c_str(), &facts) == 0);
  CHECK((facts.st_mode & 0777) == 0700);
}

TEST_CASE("a tree whose file was written to is not whole") {
  const Folder folder;
  const auto cache = DataCache::open(folder / "cache");
  const DataManifest manifest = put_tree(*cache, folder, "one", 5);
  const auto file = cache->tree(id_of("one")) / "file";
  ::chmod(file.c_str(), 0644);
  std::ofstream(file) << "other";
  CHECK(!cache->is_whole(id_of("one"), manifest));
}

TEST_CASE("a tree whose file may be written to is not whole, whatever its time says") {
  const Folder folder;
  const auto cache = DataCache::open(folder / "cache");
  const DataManifest manifest = put_tree(*cache, folder, "one", 5);
  ::chmod((cache->tree(id_of("one")) / "file").c_str(), 0644);
  CHECK(!cache->is_whole(id_of("one"), manifest));
}

TEST_CASE("a tree with a file more is not whole") {
  const Folder folder;
  const auto cache = DataCache::open(folder / "cache");
  const DataManifest manifest = put_tree(*cache, folder, "one", 5);
  ::chmod(cache->tree(id_of("one")).c_str(), 0755);
  folder.write("cache/trees/" + id_of("one") + "/planted", "x");
  CHECK(!cache->is_whole(id_of("one"), manifest));
}

TEST_CASE("who reads a tree that is made anew keeps the old one, until nobody does") {
  const Folder folder;
  const auto cache = DataCache::open(folder / "cache");
  const DataManifest manifest = put_tree(*cache, folder, "one", 5);
  auto held = cache->hold(id_of("one"));
  const Fd reader(::open(cache->tree(id_of("one")).c_str(), O_RDONLY | O_DIRECTORY));
  REQUIRE(cache->build(id_of("one"), manifest));
  CHECK(cache->is_whole(id_of("one"), manifest));
  CHECK(::faccessat(reader.get(), "file", R_OK, 0) == 0);
  CHECK(!cache->make_room(100, "100"));
  CHECK(::faccessat(reader.get(), "file", R_OK, 0) == 0);
  held.reset();
  CHECK(cache->make_room(100, "100"));
  CHECK(std::filesystem::is_empty(folder / "cache/trees"));
}

TEST_CASE("two that fetch at once do not count on the same room") {
  const Folder folder;
  const auto cache = DataCache::open(folder / "cache");
  const auto tell = [](std::string_view) {};
  const auto one = cache->fetching(id_of("one"), tell);
  auto other = cache->fetching(id_of("other"), tell);
  REQUIRE(cache->make_room(600, "1000", *one));
  CHECK(!cache->make_room(600, "1000", *other));
  CHECK(cache->make_room(400, "1000", *other));
  CHECK(!cache->make_room(700, "1000", *one));
  *other = Fd();  // it is gone
  CHECK(cache->make_room(700, "1000", *one));
}

TEST_CASE("what was verified for the same data is not removed to make room for the rest") {
  const Folder folder;
  const auto cache = DataCache::open(folder / "cache");
  const DataManifest manifest{"store", "two", {{"a", 600, 7, ""}, {"b", 600, 7, ""}}};
  const std::string name = object_name(manifest, manifest.files[0]);
  folder.write("cache/objects/" + name.substr(0, 2) + "/" + name, std::string(600, 'x'));
  const auto lock = cache->fetching(id_of("two"), [](std::string_view) {});
  CHECK(!cache->make_room(600, "1000", *lock, &manifest));
  CHECK(std::filesystem::exists(cache->object(name)));
  CHECK(cache->make_room(600, "1000", *lock));
}

TEST_CASE("what was not used for longest goes first, and nothing that is held") {
  const Folder folder;
  const auto cache = DataCache::open(folder / "cache");
  for (const char* name : {"old", "held", "new"}) put_tree(*cache, folder, name, 1000);
  const auto held = cache->hold(id_of("held"));
  REQUIRE(held);
  int age_s = 300;
  for (const char* name : {"held", "old", "new"}) {
    const auto lock = folder / "cache/locks/" / id_of(name);
    std::filesystem::last_write_time(
        lock, std::filesystem::file_time_type::clock::now() - std::chrono::seconds(age_s -= 100));
  }
  REQUIRE(cache->make_room(1000, "3000"));
  CHECK(!is_there(*cache, "old"));
  CHECK(is_there(*cache, "held"));
  CHECK(is_there(*cache, "new"));
  const auto full = cache->make_room(2500, "3000");
  REQUIRE(!full);
  CHECK(mentions(full.error().message, "2.5 kB"));
  CHECK(mentions(full.error().message, "holds 1.0 kB in use"));
  CHECK(is_there(*cache, "held"));
}

TEST_CASE("a tree that is held again counts as used again") {
  const Folder folder;
  const auto cache = DataCache::open(folder / "cache");
  for (const char* name : {"one", "other"}) {
    put_tree(*cache, folder, name, 1000);
    std::filesystem::last_write_time(
        folder / "cache/locks/" / id_of(name),
        std::filesystem::file_time_type::clock::now() -
            std::chrono::seconds(std::string_view(name) == "one" ? 200 : 100));
  }
  REQUIRE(cache->hold(id_of("one")));
  REQUIRE(cache->make_room(1000, "2000"));
  CHECK(is_there(*cache, "one"));
  CHECK(!is_there(*cache, "other"));
}

TEST_CASE("nothing is removed for data that never fit") {
  const Folder folder;
  const auto cache = DataCache::open(folder / "cache");
  put_tree(*cache, folder, "one", 1000);
  CHECK(!cache->make_room(2500, "2000"));
  CHECK(is_there(*cache, "one"));
}

TEST_CASE("objects of no tree make room first") {
  const Folder folder;
  const auto cache = DataCache::open(folder / "cache");
  put_tree(*cache, folder, "one", 1000);
  folder.write("cache/objects/aa/" + id_of("left"), std::string(1000, 'y'));
  REQUIRE(cache->make_room(1000, "2000"));
  CHECK(is_there(*cache, "one"));
  CHECK(!std::filesystem::exists(folder / ("cache/objects/aa/" + id_of("left"))));
}

TEST_CASE("what a dead process was fetching is removed, what a living one fetches is not") {
  const Folder folder;
  const auto cache = DataCache::open(folder / "cache");
  const auto living = cache->fetching(id_of("living"), [](std::string_view) {});
  REQUIRE(living);
  folder.write("cache/incoming/" + id_of("living") + "/files/a", "x");
  folder.write("cache/incoming/" + id_of("dead") + "/files/a", "x");
  REQUIRE(cache->make_room(1, "50%"));
  CHECK(std::filesystem::exists(cache->incoming(id_of("living"))));
  CHECK(!std::filesystem::exists(cache->incoming(id_of("dead"))));
}

TEST_CASE("no name but a hash is held") {
  const Folder folder;
  const auto cache = DataCache::open(folder / "cache");
  CHECK(!cache->hold("../x"));
  CHECK(!cache->hold(""));
}

}  // namespace muster
