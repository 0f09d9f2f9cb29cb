#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <ctime>

#include "launcher/staging/beneath.h"
#include "launcher/staging/blob_store.h"
#include "tests/catch.h"
#include "tests/launcher/staging/trees.h"

using namespace muster;

namespace {

const std::string hash_of_abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

std::set<std::string> unfinished(const Folder& folder) {
  return folder.list("blobs/tmp");
}

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
  auto removed = sweep_blobs(store.root(), {[&](const std::string& hash) { return hash == needed; },
                                            ::time(nullptr) - 3 * day_s, dry_run});
  REQUIRE(removed);
  return *removed;
}

}  // namespace

TEST_CASE_METHOD(WithStore, "a blob lies under the SHA-256 of its bytes and cannot be written to") {
  const auto blob = store.put_bytes("abc");
  REQUIRE(blob);
  CHECK(blob->hash == hash_of_abc);
  CHECK(blob->size_bytes == 3);
  CHECK(folder.read("blobs/ba/" + hash_of_abc) == "abc");
  CHECK(folder.mode("blobs/ba/" + hash_of_abc) == 0444);
  CHECK(store.contains(hash_of_abc, 3));
  CHECK_FALSE(store.contains(hash_of_abc, 4));
  CHECK(unfinished(folder).empty());
}

TEST_CASE("a store is made with the folders around it, and is its owner's alone") {
  Folder folder;
  REQUIRE(BlobStore::open(folder / "home/muster/blobs"));
  CHECK(folder.list() == std::set<std::string>{"home/", "home/muster/", "home/muster/blobs/",
                                               "home/muster/blobs/tmp/"});
  CHECK(folder.mode("home/muster/blobs") == 0700);
  folder.write("file", "in the way");
  CHECK_THAT(BlobStore::open(folder / "file/blobs").error().message,
             ContainsSubstring("cannot create '"));
}

TEST_CASE_METHOD(WithStore, "a file of any size is stored whole") {
  const std::size_t size = GENERATE(0u, 1u, (1u << 20) - 1, 1u << 20, (1u << 20) + 1, 3u << 20);
  std::string content(size, '\0');
  for (std::size_t i = 0; i < size; ++i) content[i] = static_cast<char>(i * 7 + i / 251);
  folder.write("source", content);

  const auto blob = put_file(store, folder / "source");
  REQUIRE(blob);
  CHECK(blob->hash == content_hash_of(content));
  CHECK(blob->size_bytes == static_cast<std::int64_t>(size));
  const auto read = store.read(blob->hash, 0, size + 1);
  REQUIRE(read);
  CHECK(*read == content);
  CHECK(put_file(store, folder / "source"));
  CHECK(unfinished(folder).empty());
}

TEST_CASE_METHOD(WithStore, "a blob is read piece by piece") {
  const auto blob = store.put_bytes("0123456789");
  REQUIRE(blob);
  CHECK(*store.read(blob->hash, 0, 4) == "0123");
  CHECK(*store.read(blob->hash, 8, 4) == "89");
  CHECK(store.read(blob->hash, 10, 4)->empty());
}

TEST_CASE_METHOD(WithStore, "a blob that arrives in pieces is checked before it is believed") {
  auto writer = store.writer(hash_of_abc);
  REQUIRE(writer);
  CHECK(writer->append(0, "a"));
  const Status gap = writer->append(2, "c");
  REQUIRE_FALSE(gap);
  CHECK(gap.error().message == "blob " + hash_of_abc + ": a piece at offset 2 came after 1 bytes");
  CHECK(writer->append(1, "bc"));
  CHECK_FALSE(store.contains(hash_of_abc, 3));
  CHECK(writer->finish());
  CHECK(store.contains(hash_of_abc, 3));
}

TEST_CASE_METHOD(WithStore, "a damaged blob is discarded and leaves nothing behind") {
  {
    auto writer = store.writer(hash_of_abc);
    REQUIRE(writer);
    CHECK(writer->append(0, "abd"));
    const Status finished = writer->finish();
    REQUIRE_FALSE(finished);
    CHECK_THAT(finished.error().message, ContainsSubstring("arrived damaged"));
  }
  CHECK_FALSE(store.contains(hash_of_abc, 3));
  CHECK(unfinished(folder).empty());
}

TEST_CASE_METHOD(WithStore, "a hash from another machine cannot name a file outside the store") {
  folder.write("secret", "s");
  const std::string hostile =
      GENERATE("../../secret", "", "BA7816BF", "/etc/passwd",
               "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015a/");
  CHECK_FALSE(store.writer(hostile));
  CHECK_FALSE(store.read(hostile, 0, 10));
  CHECK_FALSE(store.contains(hostile, 1));
}

TEST_CASE_METHOD(WithStore,
                 "a blob that was written to or cut short counts as missing and is replaced") {
  REQUIRE(store.put_bytes("abc"));
  const std::string name = "blobs/ba/" + hash_of_abc;
  ::chmod((folder / name).c_str(), 0644);
  const std::string damage = GENERATE("abX", "", "abcd");
  std::ofstream(folder / name, std::ios::binary | std::ios::trunc) << damage;
  CHECK_FALSE(store.contains(hash_of_abc, 3));
  REQUIRE(store.put_bytes("abc"));
  CHECK(store.contains(hash_of_abc, 3));
  CHECK(folder.read(name) == "abc");
}

TEST_CASE("a blob that another process is about to name is left to it") {
  Folder folder;
  folder.write("blobs/tmp/whole", "content");
  const Fd file(::open((folder / "blobs/tmp/whole").c_str(), O_RDWR | O_CLOEXEC));
  REQUIRE(mark_untouched(file));
  store_in(folder);
  CHECK(unfinished(folder) == std::set<std::string>{"whole"});
}

TEST_CASE("unfinished blobs of a crash go after a day, young ones stay") {
  Folder folder;
  folder.write("blobs/tmp/old", "x");
  folder.write("blobs/tmp/young", "x");
  std::filesystem::last_write_time(
      folder / "blobs/tmp/old",
      std::filesystem::file_time_type::clock::now() - std::chrono::hours(25));
  (void)store_in(folder);
  CHECK(unfinished(folder) == std::set<std::string>{"young"});
}

TEST_CASE_METHOD(WithStore, "a special file is named in the error") {
  REQUIRE(::mkfifo((folder / "pipe").c_str(), 0600) == 0);
  CHECK_THAT(put_file(store, folder / "pipe").error().message,
             ContainsSubstring("pipe' is not a regular file"));
}

TEST_CASE_METHOD(WithStore, "the receiver keeps the pieces of several blobs apart") {
  BlobReceiver receiver(store);
  const std::string other = content_hash_of("xyz");
  CHECK_FALSE(*receiver.accept({hash_of_abc, 0, false}, "ab"));
  CHECK_FALSE(*receiver.accept({other, 0, false}, "x"));
  CHECK(*receiver.accept({hash_of_abc, 2, true}, "c"));
  CHECK(*receiver.accept({other, 1, true}, "yz"));
  CHECK(store.contains(hash_of_abc, 3));
  CHECK(store.contains(other, 3));
}

TEST_CASE_METHOD(WithStore, "a blob that begins again after a reconnection is received afresh") {
  BlobReceiver receiver(store);
  CHECK_FALSE(*receiver.accept({hash_of_abc, 0, false}, "ab"));
  CHECK_FALSE(*receiver.accept({hash_of_abc, 0, false}, "a"));
  CHECK(*receiver.accept({hash_of_abc, 1, true}, "bc"));
  CHECK_THAT(receiver.accept({hash_of_abc, 5, true}, "q").error().message,
             ContainsSubstring("without its beginning"));
  receiver.reset();
  CHECK(unfinished(folder).empty());
}

TEST_CASE("a full disk is reported with the free space and what to do") {
  const std::string message = stage_error("write", "/tmp/none/x", ENOSPC).message;
  CHECK_THAT(message, ContainsSubstring("cannot write '/tmp/none/x': the file system is full ("));
  CHECK_THAT(message, ContainsSubstring("free); make room and try again"));
}

TEST_CASE("a failing disk is called that") {
  CHECK_THAT(stage_error("read", "/data/f", EIO).message,
             ContainsSubstring("cannot read '/data/f': the disk reported an input/output error"));
}

TEST_CASE("sizes are readable") {
  CHECK(readable_bytes(0) == "0 bytes");
  CHECK(readable_bytes(1) == "1 byte");
  CHECK(readable_bytes(1023) == "1023 bytes");
  CHECK(readable_bytes(1536) == "1.5 KiB");
  CHECK(readable_bytes(std::int64_t{3} << 30) == "3.0 GiB");
  CHECK(readable_bytes(std::int64_t{5000} << 40) == "5000.0 TiB");
}

TEST_CASE("paths that could leave a directory are recognised") {
  for (const char* bad : {"", "/a", "..", "../a", "a/..", "a/../b", ".", "./a", "a//b", "a/"}) {
    INFO(bad);
    CHECK_FALSE(unsafe_path_reason(bad).empty());
  }
  CHECK_FALSE(unsafe_path_reason(std::string("a\0b", 3)).empty());
  for (const char* good : {"a", "a/b", "..a", "a..", "a/...", ".hidden", "a b/\xff"}) {
    INFO(good);
    CHECK(unsafe_path_reason(good).empty());
  }
}

TEST_CASE_METHOD(WithStore, "a sweep removes blobs that no job needs and nobody has used") {
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

TEST_CASE_METHOD(WithStore, "a blob that somebody begins to use is kept by the next sweep") {
  const std::string found = put(store, "found", 4 * day_s);
  const std::string put_again = put(store, "put again", 4 * day_s);
  CHECK(store.contains(found, 5));
  CHECK(store.put_bytes("put again"));
  CHECK(sweep(store, "").count == 0);
  CHECK(store.contains(found, 5));
}

TEST_CASE_METHOD(WithStore, "a blob that a killed sweep had taken out is put back") {
  const std::string hash = put(store, "text", 4 * day_s);
  REQUIRE(::rename(store.path_of(hash).c_str(),
                   (store.root() / "tmp" / ("swept-" + hash)).c_str()) == 0);
  CHECK_FALSE(store.contains(hash, 4));
  CHECK(store_in(folder).contains(hash, 4));
}

TEST_CASE_METHOD(WithStore,
                 "a blob that somebody begins to use while a sweep looks at it stays where it is") {
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
