#include "launcher/staging/blob_sweep.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <ctime>

#include "tests/launcher/staging/trees.h"

namespace muster {

namespace {

constexpr std::time_t day_s = 24 * 3600;

std::string put(const BlobStore& store, const std::string& text, std::time_t used_ago_s) {
  const auto blob = store.put_bytes(text);
  REQUIRE(blob);
  const timespec times[2] = {{::time(nullptr) - used_ago_s, 0}, {0, UTIME_OMIT}};
  REQUIRE(::utimensat(AT_FDCWD, store.path_of(blob->hash).c_str(), times, 0) == 0);
  return blob->hash;
}

bool is_there(const BlobStore& store, const std::string& hash) {
  return ::access(store.path_of(hash).c_str(), F_OK) == 0;
}

Removed sweep(const BlobStore& store, const std::string& needed, bool dry_run = false) {
  auto removed = sweep_blobs(
      store.root(), {[&](const std::string& hash) { return hash == needed; },
                     ::time(nullptr) - 3 * day_s, dry_run});
  REQUIRE(removed);
  return *removed;
}

}  // namespace

TEST_CASE("a sweep removes blobs that no job needs and nobody has used") {
  Folder folder;
  const BlobStore store = store_in(folder);
  const std::string old = put(store, "old", 4 * day_s);
  const std::string needed = put(store, "needed", 4 * day_s);
  const std::string lately = put(store, "lately", 2 * day_s);
  const std::string linked = put(store, "linked", 4 * day_s);
  REQUIRE(::link(store.path_of(linked).c_str(), (folder / "input").c_str()) == 0);

  const Removed would_be = sweep(store, needed, true);
  CHECK(would_be.count == 1);
  CHECK(would_be.bytes == 3);
  CHECK(is_there(store, old));
  CHECK(sweep(store, needed).count == 1);
  CHECK_FALSE(is_there(store, old));
  CHECK(is_there(store, needed));
  CHECK(is_there(store, lately));
  CHECK(is_there(store, linked));
}

TEST_CASE("a blob that somebody begins to use is kept by the next sweep") {
  Folder folder;
  const BlobStore store = store_in(folder);
  const std::string found = put(store, "found", 4 * day_s);
  const std::string put_again = put(store, "put again", 4 * day_s);
  CHECK(store.contains(found, 5));
  CHECK(store.put_bytes("put again"));
  CHECK(sweep(store, "").count == 0);
  CHECK(store.contains(found, 5));
}

TEST_CASE("a blob that a killed sweep had taken out is put back") {
  Folder folder;
  const BlobStore store = store_in(folder);
  const std::string hash = put(store, "text", 4 * day_s);
  REQUIRE(::rename(store.path_of(hash).c_str(), (store.root() / "tmp" / ("swept-" + hash)).c_str())
          == 0);
  CHECK_FALSE(store.contains(hash, 4));
  CHECK(store_in(folder).contains(hash, 4));
}

TEST_CASE("a blob that somebody begins to use while a sweep looks at it stays where it is") {
  Folder folder;
  const BlobStore store = store_in(folder);
  const std::string found = put(store, "found", 4 * day_s);
  const std::string linked = put(store, "linked", 4 * day_s);
  const std::string left = put(store, "left", 4 * day_s);
  const auto somebody_comes = [&](const std::string& hash) {
    if (hash == found) CHECK(store.contains(found, 5));
    if (hash == linked) {
      REQUIRE(::link(store.path_of(linked).c_str(), (folder / "input").c_str()) == 0);
    }
    return false;
  };
  const auto removed =
      sweep_blobs(store.root(), {somebody_comes, ::time(nullptr) - 3 * day_s, false});
  REQUIRE(removed);
  CHECK(removed->count == 1);
  CHECK(removed->bytes == 4);
  CHECK(is_there(store, found));
  CHECK(is_there(store, linked));
  CHECK_FALSE(is_there(store, left));
  CHECK(std::filesystem::is_empty(store.root() / "tmp"));
}

}  // namespace muster
