#include "launcher/staging/snapshot.h"

#include <chrono>

#include "launcher/staging/source_tree.h"
#include "tests/launcher/staging/trees.h"

namespace muster {

namespace {

namespace fs = std::filesystem;
using Paths = std::vector<std::string>;

// Files that were written just now are read again next time: make them older.
void let_time_pass(const Folder& folder, const std::string& name) {
  fs::last_write_time(folder / name, fs::last_write_time(folder / name) - std::chrono::seconds(10));
}

}  // namespace

TEST_CASE_METHOD(WithStore,
                 "a snapshot lists a directory in a fixed order, with modes, sizes and hashes") {
  folder.write("code/b.py", "bb");
  folder.write("code/a/run.sh", "#!/bin/sh\n", 0755);
  folder.write("code/a-b", "");
  folder.directory("code/empty");
  const Snapshot taken = snapshot_of(folder / "code", store);

  CHECK(paths_of(taken.tree) == Paths{"a", "a/run.sh", "a-b", "b.py", "empty"});
  CHECK(taken.tree.place == "code");
  CHECK(entry_of(taken.tree, "a/run.sh").mode == 0755);
  CHECK(entry_of(taken.tree, "b.py").mode == 0644);
  CHECK(entry_of(taken.tree, "b.py").hash == content_hash_of("bb"));
  CHECK(entry_of(taken.tree, "b.py").size_bytes == 2);
  CHECK(entry_of(taken.tree, "empty").entry_kind == TreeEntry::Kind::directory);
  CHECK(store.contains(content_hash_of(""), 0));
  CHECK(taken.files == 3);
  CHECK(taken.bytes == 12);
  CHECK(taken.warnings.empty());
}

TEST_CASE_METHOD(WithStore, "an empty directory and a single file can be taken") {
  folder.directory("nothing");
  folder.write("data.bin", "12345");
  CHECK(snapshot_of(folder / "nothing", store).tree.entries.empty());
  const Snapshot file = snapshot_of(folder / "data.bin", store);
  REQUIRE(paths_of(file.tree) == Paths{"data.bin"});
  CHECK(entry_of(file.tree, "data.bin").size_bytes == 5);
}

TEST_CASE_METHOD(WithStore, "a source that is not there, or is no file, is named") {
  SnapshotRequest request{folder / "absent", "code"};
  CHECK_THAT(take_snapshot(request, store).error().message,
             ContainsSubstring("absent': No such file or directory"));
  request.source = "/dev/null";
  CHECK_THAT(take_snapshot(request, store).error().message,
             ContainsSubstring("neither a file nor a directory"));
}

TEST_CASE_METHOD(WithStore, "ignored directories are not entered and .git is never taken") {
  folder.write("code/.gitignore", "build/\n*.o\n!keep.o\n");
  folder.write("code/build/huge", "x");
  folder.write("code/a.o", "x");
  folder.write("code/keep.o", "x");
  folder.write("code/.git/config", "x");
  folder.write("code/sub/.git", "gitdir: elsewhere");
  folder.write("code/sub/.gitignore", "!a.o\nlocal\n");
  folder.write("code/sub/a.o", "x");
  folder.write("code/sub/local", "x");
  CHECK(paths_of(snapshot_of(folder / "code", store).tree) ==
        Paths{".gitignore", "keep.o", "sub", "sub/.gitignore", "sub/a.o"});
}

TEST_CASE_METHOD(WithStore, "an .amlignore stands in for every .gitignore") {
  folder.write("code/.amlignore", "data\n");
  folder.write("code/.gitignore", "*.txt\n");
  folder.write("code/a.txt", "x");
  folder.write("code/data", "x");
  folder.write("code/sub/.gitignore", "*.py\n");
  folder.write("code/sub/b.py", "x");
  CHECK(paths_of(snapshot_of(folder / "code", store).tree) ==
        Paths{".amlignore", ".gitignore", "a.txt", "sub", "sub/.gitignore", "sub/b.py"});
}

TEST_CASE_METHOD(WithStore, "inputs are taken whole, whatever an ignore file says") {
  folder.write("data/.gitignore", "*\n");
  folder.write("data/a", "x");
  SnapshotRequest request{folder / "data", "inputs/data", false};
  request.honour_ignore_files = false;
  request.warn_above_bytes = 2;
  const auto taken = take_snapshot(request, store);
  REQUIRE(taken);
  CHECK(paths_of(taken->tree) == Paths{".gitignore", "a"});
  REQUIRE(taken->warnings.size() == 1);
  CHECK_THAT(taken->warnings[0], ContainsSubstring("holds 3 bytes, which are copied"));
}

TEST_CASE_METHOD(WithStore, "unchanged files are not read again, changed ones are") {
  folder.write("code/a", "one");
  folder.write("code/b", "two");
  // The inode's change time cannot be set back: wait until it is old enough to be trusted.
  ::usleep(2'100'000);
  CHECK(snapshot_of(folder / "code", store).files_read == 2);
  const Snapshot second = snapshot_of(folder / "code", store);
  CHECK(second.files_read == 0);
  CHECK(second.files == 2);
  CHECK(entry_of(second.tree, "a").hash == content_hash_of("one"));

  folder.write("code/a", "ONE");  // the same size, and its time set back
  let_time_pass(folder, "code/a");
  const Snapshot third = snapshot_of(folder / "code", store);
  CHECK(third.files_read == 1);
  CHECK(entry_of(third.tree, "a").hash == content_hash_of("ONE"));

  fs::remove(store.path_of(content_hash_of("two")));
  CHECK(snapshot_of(folder / "code", store).files_read == 2);  // `a` is still too young
  CHECK(store.contains(content_hash_of("two"), 3));
}

TEST_CASE_METHOD(WithStore, "a file that was written to a moment ago is read again next time") {
  folder.write("code/a", "one");
  CHECK(snapshot_of(folder / "code", store).files_read == 1);
  CHECK(snapshot_of(folder / "code", store).files_read == 1);
}

TEST_CASE_METHOD(WithStore, "a damaged cache costs time, not correctness") {
  folder.write("code/a", "one");
  const std::string cache = "blobs/cache/" + content_hash_of((folder / "code").string());
  for (const char* damage : {"", "muster hash cache 1\n", "muster hash cache 1\nrubbish",
                             "muster hash cache 2\n", "muster hash cache 1\nzz 1 2 3 4 5 p\0"}) {
    folder.write(cache, damage);
    CHECK(entry_of(snapshot_of(folder / "code", store).tree, "a").hash == content_hash_of("one"));
  }
}

TEST_CASE("walking a source reads no file") {
  Folder folder;
  folder.write("code/a", "one");
  const auto walked = walk_source(folder / "code", true);
  REQUIRE(walked);
  REQUIRE(walked->entries.size() == 1);
  CHECK(walked->entries[0].entry.hash.empty());
  CHECK(walked->bytes == 3);
  CHECK(walked->files == 1);
}

}  // namespace muster
