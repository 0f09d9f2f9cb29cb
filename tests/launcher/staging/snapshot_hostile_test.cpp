// Sources that misbehave: links in all directions, odd names, files that change under the reader.
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "launcher/staging/snapshot.h"
#include "launcher/staging/source_tree.h"
#include "tests/launcher/staging/trees.h"

namespace muster {

namespace {

namespace fs = std::filesystem;
using Paths = std::vector<std::string>;

}  // namespace

TEST_CASE_METHOD(WithStore, "links inside the tree stay links, dangling and circular ones too") {
  folder.write("code/sub/file", "x");
  folder.link("code/near", "sub/file");
  folder.link("code/sub/up", "../sub");
  folder.link("code/dangling", "nowhere/at/all");
  folder.link("code/self", "self");
  folder.link("code/chain", "near");
  const Snapshot taken = snapshot_of(folder / "code", store);
  CHECK(entry_of(taken.tree, "near").target == "sub/file");
  CHECK(entry_of(taken.tree, "sub/up").target == "../sub");
  CHECK(entry_of(taken.tree, "dangling").target == "nowhere/at/all");
  CHECK(entry_of(taken.tree, "self").target == "self");
  CHECK(entry_of(taken.tree, "chain").target == "near");
  CHECK(taken.warnings.empty());
}

TEST_CASE_METHOD(WithStore, "a link inside the tree that names it from outside is made relative") {
  folder.write("code/sub/file", "x");
  folder.link("code/sub/absolute", (folder / "code/sub/file").string());
  folder.link("code/around", "../code/sub");
  const Snapshot taken = snapshot_of(folder / "code", store);
  CHECK(entry_of(taken.tree, "sub/absolute").target == "file");
  CHECK(entry_of(taken.tree, "around").target == "sub");
}

TEST_CASE_METHOD(WithStore,
                 "a link that leaves the tree is replaced by what it points to, with a warning") {
  folder.write("elsewhere/data/inner", "content");
  folder.write("elsewhere/single", "one");
  folder.link("elsewhere/data/own", "inner");
  folder.link("code/data", "../elsewhere/data");
  folder.link("code/single", (folder / "elsewhere/single").string());
  const Snapshot taken = snapshot_of(folder / "code", store);
  CHECK(paths_of(taken.tree) == Paths{"data", "data/inner", "data/own", "single"});
  CHECK(entry_of(taken.tree, "data/inner").hash == content_hash_of("content"));
  CHECK(entry_of(taken.tree, "data/own").target == "inner");
  CHECK(entry_of(taken.tree, "single").hash == content_hash_of("one"));
  REQUIRE(taken.warnings.size() == 2);
  CHECK_THAT(taken.warnings[0], ContainsSubstring("'data' leads out of the tree: a copy of"));
}

TEST_CASE_METHOD(WithStore, "links that lead around in circles outside the tree come to an end") {
  folder.write("a/file", "x");
  folder.write("b/file", "x");
  folder.link("a/to_b", "../b");
  folder.link("b/to_a", "../a");
  folder.link("code/up", "..");
  folder.link("code/root", "/");
  folder.link("code/to_a", "../a");
  const Snapshot taken = snapshot_of(folder / "code", store);
  CHECK(paths_of(taken.tree) == Paths{"to_a", "to_a/file", "to_a/to_b", "to_a/to_b/file"});
  CHECK(taken.warnings.size() == 5);  // up, root and to_a/to_b/to_a left out; two copies
}

TEST_CASE_METHOD(WithStore, "pipes are left out with a warning and do not stop the walk") {
  folder.write("code/z", "x");
  REQUIRE(::mkfifo((folder / "code/pipe").c_str(), 0600) == 0);
  const Snapshot taken = snapshot_of(folder / "code", store);
  CHECK(paths_of(taken.tree) == Paths{"z"});
  REQUIRE(taken.warnings.size() == 1);
  CHECK_THAT(taken.warnings[0], ContainsSubstring("pipe' is skipped"));
}

TEST_CASE_METHOD(WithStore, "many warnings are counted, not printed") {
  folder.directory("code");
  for (int i = 0; i < 30; ++i) {
    REQUIRE(::mkfifo((folder / ("code/pipe" + std::to_string(i))).c_str(), 0600) == 0);
  }
  const Snapshot taken = snapshot_of(folder / "code", store);
  REQUIRE(taken.warnings.size() == 21);
  CHECK(taken.warnings.back() == "and 10 more such warnings");
}

TEST_CASE("an unreadable file or directory is an error that names it") {
  Folder folder;
  const AsNobody nobody(folder);
  folder.write("code/secret", "x", 0);
  const BlobStore store = store_in(folder);
  const SnapshotRequest request{folder / "code", "code"};
  CHECK_THAT(take_snapshot(request, store).error().message,
             ContainsSubstring("code/secret': Permission denied"));
  ::chmod((folder / "code/secret").c_str(), 0644);
  folder.write("code/closed/x", "x");
  ::chmod((folder / "code/closed").c_str(), 0);
  CHECK_THAT(take_snapshot(request, store).error().message,
             ContainsSubstring("code/closed': Permission denied"));
  ::chmod((folder / "code/closed").c_str(), 0755);
}

TEST_CASE_METHOD(WithStore, "file names are bytes") {
  const Paths names{"\x01", " ", "*", "new\nline", "\xff\xfe"};
  for (const std::string& name : names) folder.write("code/" + name, name);
  const Snapshot taken = snapshot_of(folder / "code", store);
  CHECK(paths_of(taken.tree) == names);
  CHECK(entry_of(taken.tree, "\xff\xfe").hash == content_hash_of("\xff\xfe"));
}

TEST_CASE_METHOD(WithStore, "what is stored is what was hashed while the file keeps changing") {
  folder.write("code/busy", std::string(3 << 20, 'a'));
  std::atomic<bool> stop = false;
  std::thread writer([&] {
    for (int i = 0; !stop; ++i) {
      folder.write("code/busy", std::string(static_cast<std::size_t>(1 + i % 4) << 20,
                                            static_cast<char>('a' + i % 26)));
    }
  });
  for (int i = 0; i < 20; ++i) {
    const Snapshot taken = snapshot_of(folder / "code", store);
    const TreeEntry busy = entry_of(taken.tree, "busy");
    CHECK(store.contains(busy.hash, busy.size_bytes));
    CHECK(content_hash_of(*store.read(busy.hash, 0, 8 << 20)) == busy.hash);
  }
  stop = true;
  writer.join();
}

TEST_CASE_METHOD(WithStore,
                 "hundreds of files in deep directories are taken and give the same tree twice") {
  std::string deep = "code";
  for (int i = 0; i < 200; ++i) deep += "/d";
  folder.write(deep + "/bottom", "x");
  for (int i = 0; i < 800; ++i) {
    folder.write("code/f" + std::to_string(i % 50) + "/" + std::to_string(i), std::to_string(i));
  }
  const Snapshot first = snapshot_of(folder / "code", store);
  const Snapshot second = snapshot_of(folder / "code", store);
  CHECK(first.files == 801);
  CHECK(paths_of(first.tree) == paths_of(second.tree));
}

}  // namespace muster
