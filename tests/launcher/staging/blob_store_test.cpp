#include <fcntl.h>
#include <sys/stat.h>

#include "launcher/staging/blob_store.h"
#include "launcher/staging/hash_cache.h"
#include "tests/launcher/staging/trees.h"

namespace muster {

namespace {

const std::string hash_of_abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

std::set<std::string> unfinished(const Folder& folder) { return folder.list("blobs/tmp"); }

}  // namespace

TEST_CASE("a blob lies under the SHA-256 of its bytes and cannot be written to") {
  Folder folder;
  const BlobStore store = store_in(folder);
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
  CHECK(folder.list() ==
        std::set<std::string>{"home/", "home/muster/", "home/muster/blobs/",
                              "home/muster/blobs/tmp/"});
  CHECK(folder.mode("home/muster/blobs") == 0700);
  folder.write("file", "in the way");
  const auto refused = BlobStore::open(folder / "file/blobs");
  REQUIRE_FALSE(refused);
  CHECK_THAT(refused.error().message, ContainsSubstring("cannot create '"));
}

TEST_CASE("a file of any size is stored whole") {
  Folder folder;
  const BlobStore store = store_in(folder);
  const std::size_t size = GENERATE(0u, 1u, (1u << 20) - 1, 1u << 20, (1u << 20) + 1, 3u << 20);
  std::string content(size, '\0');
  for (std::size_t i = 0; i < size; ++i) content[i] = static_cast<char>(i * 7 + i / 251);
  folder.write("source", content);

  const auto blob = store.put_file(folder / "source");
  REQUIRE(blob);
  CHECK(blob->hash == content_hash_of(content));
  CHECK(blob->size_bytes == static_cast<std::int64_t>(size));
  const auto read = store.read(blob->hash, 0, size + 1);
  REQUIRE(read);
  CHECK(*read == content);
  CHECK(store.put_file(folder / "source"));
  CHECK(unfinished(folder).empty());
}

TEST_CASE("a blob is read piece by piece") {
  Folder folder;
  const BlobStore store = store_in(folder);
  const auto blob = store.put_bytes("0123456789");
  REQUIRE(blob);
  CHECK(*store.read(blob->hash, 0, 4) == "0123");
  CHECK(*store.read(blob->hash, 8, 4) == "89");
  CHECK(store.read(blob->hash, 10, 4)->empty());
}

TEST_CASE("a blob that arrives in pieces is checked before it is believed") {
  Folder folder;
  const BlobStore store = store_in(folder);
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

TEST_CASE("a damaged blob is discarded and leaves nothing behind") {
  Folder folder;
  const BlobStore store = store_in(folder);
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

TEST_CASE("a hash from another machine cannot name a file outside the store") {
  Folder folder;
  const BlobStore store = store_in(folder);
  folder.write("secret", "s");
  const std::string hostile =
      GENERATE("../../secret", "", "BA7816BF", "/etc/passwd",
               "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015a/");
  CHECK_FALSE(store.writer(hostile));
  CHECK_FALSE(store.read(hostile, 0, 10));
  CHECK_FALSE(store.contains(hostile, 1));
}

TEST_CASE("a blob that was written to or cut short counts as missing and is replaced") {
  Folder folder;
  const BlobStore store = store_in(folder);
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
  std::filesystem::last_write_time(folder / "blobs/tmp/old",
                                   std::filesystem::file_time_type::clock::now() -
                                       std::chrono::hours(25));
  (void)store_in(folder);
  CHECK(unfinished(folder) == std::set<std::string>{"young"});
}

TEST_CASE("a missing or special file is named in the error") {
  Folder folder;
  const BlobStore store = store_in(folder);
  const auto absent = store.put_file(folder / "absent");
  REQUIRE_FALSE(absent);
  CHECK(absent.error().message ==
        "cannot read '" + (folder / "absent").string() + "': No such file or directory");
  REQUIRE(::mkfifo((folder / "pipe").c_str(), 0600) == 0);
  const auto pipe = store.put_file(folder / "pipe");
  REQUIRE_FALSE(pipe);
  CHECK_THAT(pipe.error().message, ContainsSubstring("is not a regular file"));
}

TEST_CASE("the receiver keeps the pieces of several blobs apart") {
  Folder folder;
  const BlobStore store = store_in(folder);
  BlobReceiver receiver(store);
  const std::string other = content_hash_of("xyz");
  CHECK_FALSE(*receiver.accept({hash_of_abc, 0, false}, "ab"));
  CHECK_FALSE(*receiver.accept({other, 0, false}, "x"));
  CHECK(*receiver.accept({hash_of_abc, 2, true}, "c"));
  CHECK(*receiver.accept({other, 1, true}, "yz"));
  CHECK(store.contains(hash_of_abc, 3));
  CHECK(store.contains(other, 3));
}

TEST_CASE("a blob that begins again after a reconnection is received afresh") {
  Folder folder;
  const BlobStore store = store_in(folder);
  BlobReceiver receiver(store);
  CHECK_FALSE(*receiver.accept({hash_of_abc, 0, false}, "ab"));
  CHECK_FALSE(*receiver.accept({hash_of_abc, 0, false}, "a"));
  CHECK(*receiver.accept({hash_of_abc, 1, true}, "bc"));
  const auto orphan = receiver.accept({hash_of_abc, 5, true}, "q");
  REQUIRE_FALSE(orphan);
  CHECK_THAT(orphan.error().message, ContainsSubstring("without its beginning"));
  receiver.reset();
  CHECK(unfinished(folder).empty());
}

}  // namespace muster
