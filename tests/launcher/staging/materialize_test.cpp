#include "launcher/staging/materialize.h"

#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include "tests/launcher/staging/trees.h"

using namespace muster;

namespace {

namespace fs = std::filesystem;

std::uint64_t inode(const fs::path& file) {
  struct stat facts {};
  return ::stat(file.c_str(), &facts) == 0 ? facts.st_ino : 0;
}

Tree small_tree(const BlobStore& store, bool writable) {
  Tree tree;
  tree.place = writable ? "code" : "inputs/data";
  tree.writable = writable;
  tree.entries = {a_directory("sub", 0700),
                  a_file("sub/file", *store.put_bytes("content"), 0640),
                  a_file("run", *store.put_bytes("#!/bin/sh\n"), 0755),
                  a_link("link", "sub/file"),
                  a_directory("empty"),
                  a_file("none", *store.put_bytes(""))};
  return tree;
}

void close_to_all(const Folder& folder, const std::string& name, int mode = 0) {
  REQUIRE(::chmod((folder / name).c_str(), static_cast<mode_t>(mode)) == 0);
}

}  // namespace

TEST_CASE_METHOD(WithStore, "a writable tree is made of private copies with their modes") {
  const Tree tree = small_tree(store, true);
  REQUIRE(materialize(tree, store, folder / "job"));
  CHECK(folder.list("job/code") ==
        std::set<std::string>{"empty/", "link", "none", "run", "sub/", "sub/file"});
  CHECK(folder.read("job/code/link") == "content");
  CHECK(folder.mode("job/code/run") == 0755);
  CHECK(folder.mode("job/code/sub/file") == 0640);
  CHECK(folder.mode("job/code/sub") == 0700);
  folder.write("job/code/sub/file", "changed by a rank");
  CHECK(*store.read(content_hash_of("content"), 0, 100) == "content");
}

TEST_CASE_METHOD(WithStore, "who waits for a tree hears of each file") {
  std::set<std::string> heard;
  const auto placing = [&heard](const std::string& path) { heard.insert(path); };
  REQUIRE(materialize(small_tree(store, true), store, folder / "job", placing));
  CHECK(heard == std::set<std::string>{"none", "run", "sub/file"});
}

TEST_CASE_METHOD(WithStore, "a writable tree is fresh every time") {
  const Tree tree = small_tree(store, true);
  REQUIRE(materialize(tree, store, folder / "job"));
  folder.write("job/code/sub/file", "changed");
  folder.write("job/code/left/over", "by a rank");
  ::chmod((folder / "job/code/left").c_str(), 0555);
  REQUIRE(materialize(tree, store, folder / "job"));
  CHECK(folder.read("job/code/sub/file") == "content");
  CHECK_FALSE(fs::exists(folder / "job/code/left"));
  CHECK(folder.list("job/.staged").empty());
}

TEST_CASE_METHOD(WithStore,
                 "a read-only tree links to the blobs and is kept while it is untouched") {
  const Tree tree = small_tree(store, false);
  REQUIRE(materialize(tree, store, folder / "job"));
  const fs::path file = folder / "job/inputs/data/sub/file";
  CHECK(inode(file) == inode(store.path_of(content_hash_of("content"))));
  CHECK(folder.mode("job/inputs/data/sub/file") == 0444);
  CHECK(folder.mode("job/inputs/data/run") == 0555);

  const std::uint64_t before = inode(folder / "job/inputs/data");
  REQUIRE(materialize(tree, store, folder / "job"));
  CHECK(inode(folder / "job/inputs/data") == before);
}

TEST_CASE_METHOD(WithStore,
                 "a read-only tree that a rank wrote to is built again from whole blobs") {
  const Tree tree = small_tree(store, false);
  REQUIRE(materialize(tree, store, folder / "job"));
  const std::string file = "job/inputs/data/sub/file";
  ::chmod((folder / file).c_str(), 0644);
  std::ofstream(folder / file) << "CONTENT";  // through the hard link, into the blob

  CHECK(missing_blobs({tree}, store) == std::vector<std::string>{content_hash_of("content")});
  CHECK_THAT(materialize(tree, store, folder / "job").error().message,
             ContainsSubstring("is not in"));
  REQUIRE(store.put_bytes("content"));
  REQUIRE(materialize(tree, store, folder / "job"));
  CHECK(folder.read(file) == "content");
}

TEST_CASE_METHOD(WithStore, "a changed read-only tree replaces the old one") {
  Tree tree = small_tree(store, false);
  REQUIRE(materialize(tree, store, folder / "job"));
  tree.entries = {a_file("only", *store.put_bytes("x"))};
  REQUIRE(materialize(tree, store, folder / "job"));
  CHECK(folder.list("job/inputs/data") == std::set<std::string>{"only"});
}

TEST_CASE_METHOD(WithStore, "an empty tree is an empty directory") {
  Tree tree;
  tree.place = "code";
  REQUIRE(materialize(tree, store, folder / "job"));
  CHECK(fs::is_directory(folder / "job/code"));
  folder.write("job/code/x", "x");
  REQUIRE(materialize(tree, store, folder / "job"));
  CHECK(fs::is_empty(folder / "job/code"));
}

TEST_CASE_METHOD(WithStore, "a snapshot and its materialisation are the same directory") {
  folder.write("source/a/b/c", std::string(3 << 20, 'x'));
  folder.write("source/\xff\n", "odd name");
  folder.link("source/l", "a/b");
  const Snapshot taken = snapshot_of(folder / "source", store);
  REQUIRE(materialize(taken.tree, store, folder / "job"));
  CHECK(folder.list("job/code") == folder.list("source"));
  CHECK(folder.read("job/code/a/b/c") == folder.read("source/a/b/c"));
  CHECK(tree_digest(snapshot_of(folder / "job/code", store).tree) == tree_digest(taken.tree));
}

TEST_CASE_METHOD(WithStore, "missing blobs are named once each") {
  Tree tree;
  const std::string absent(64, 'a');
  tree.entries = {a_file("x", {absent, 1}), a_file("y", {absent, 1}),
                  a_file("z", *store.put_bytes("z")), a_directory("d"), a_link("l", "x")};
  CHECK(missing_blobs({tree, tree}, store) == std::vector<std::string>{absent});
}

TEST_CASE_METHOD(WithStore, "a tree that reaches outside is refused before anything is written") {
  const StoredBlob blob = *store.put_bytes("evil");
  using Entries = std::vector<TreeEntry>;
  const Entries entries = GENERATE_COPY(values<Entries>({{a_file("../x", blob)},
                                                         {a_file("/tmp/x", blob)},
                                                         {a_file("a/../../x", blob)},
                                                         {a_file("", blob)},
                                                         {a_directory("..")},
                                                         {a_link("l", "/tmp"), a_file("l/x", blob)},
                                                         {a_file("l/x", blob), a_link("l", "/tmp")},
                                                         {a_file("f", blob), a_directory("f/d")},
                                                         {a_file("f", blob), a_link("f", "x")},
                                                         {a_link("l", "")},
                                                         {a_file("f", {"../../etc/passwd", 1})}}));
  Tree tree;
  tree.place = "code";
  tree.entries = entries;
  const Status refused = materialize(tree, store, folder / "job");
  REQUIRE_FALSE(refused);
  CHECK_THAT(refused.error().message, ContainsSubstring("the tree 'code' is refused"));
  CHECK_FALSE(fs::exists(folder / "job"));
}

TEST_CASE_METHOD(WithStore, "a place outside the job's directory is refused") {
  Tree tree;
  tree.place = GENERATE("../code", "/code", "", "inputs/../../x");
  CHECK_FALSE(materialize(tree, store, folder / "job"));
}

TEST_CASE_METHOD(WithStore, "what stands in the tree's place is replaced, never followed") {
  folder.write("precious/file", "keep me");
  folder.link("job/code", (folder / "precious").string());
  const Tree tree = small_tree(store, true);
  REQUIRE(materialize(tree, store, folder / "job"));
  CHECK(folder.list("precious") == std::set<std::string>{"file"});
  CHECK_FALSE(fs::is_symlink(folder / "job/code"));
}

TEST_CASE_METHOD(WithStore,
                 "a full disk leaves the old tree, no part of the new one, and a sentence") {
  folder.directory("small");
  if (::unshare(CLONE_NEWNS) != 0 ||
      ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
      ::mount("none", (folder / "small").c_str(), "tmpfs", 0, "size=2m") != 0) {
    WARN("no small file system can be mounted here: not tested");
    return;
  }
  Tree tree;
  tree.place = "code";
  tree.entries = {a_file("a", *store.put_bytes("old"))};
  REQUIRE(materialize(tree, store, folder / "small/job"));
  tree.entries = {a_file("a", *store.put_bytes("new")),
                  a_file("big", *store.put_bytes(std::string(3 << 20, 'x')))};
  const Status full = materialize(tree, store, folder / "small/job");
  REQUIRE_FALSE(full);
  CHECK_THAT(full.error().message, ContainsSubstring("job/code/big': the file system is full ("));
  CHECK_THAT(full.error().message, ContainsSubstring("the tree 'code' takes 3.0 MiB in all"));
  CHECK(folder.read("small/job/code/a") == "old");
  CHECK(folder.list("small/job/.staged").empty());

  const BlobStore tight = store_in(folder, "small/blobs");
  folder.write("big", std::string(3 << 20, 'y'));
  CHECK_THAT(put_file(tight, folder / "big").error().message,
             ContainsSubstring("the file system is full"));
  CHECK(folder.list("small/blobs/tmp").empty());
  ::umount((folder / "small").c_str());
}

TEST_CASE("a tree goes whatever its programs have closed in it, and nothing that it links to") {
  Folder folder;
  const AsNobody nobody(folder);
  folder.write("other/kept", "x");
  folder.link("tree/a/link", (folder / "other").string());
  folder.write("tree/a/b/c/file", "x", 0);
  folder.write("tree/d/file", "x");
  close_to_all(folder, "other", 0500);
  for (const char* closed : {"tree/a/b/c", "tree/a/b", "tree/a", "tree/d", "tree"}) {
    close_to_all(folder, closed, closed == std::string("tree/d") ? 0555 : 0);
  }
  CHECK(remove_tree(folder / "tree"));
  CHECK_FALSE(std::filesystem::exists(folder / "tree"));
  CHECK(folder.read("other/kept") == "x");
  CHECK(folder.mode("other") == 0500);
}

TEST_CASE("what is not there is removed already, a file is removed like a tree") {
  Folder folder;
  CHECK(remove_tree(folder / "absent"));
  folder.write("file", "x");
  CHECK(remove_tree(folder / "file"));
  CHECK(folder.list().empty());
}

TEST_CASE("a tree that cannot be removed is named with the reason") {
  Folder folder;
  const AsNobody nobody(folder);
  folder.write("closed/tree/file", "x");
  close_to_all(folder, "closed", 0555);
  const Status removed = remove_tree(folder / "closed/tree");
  close_to_all(folder, "closed", 0755);
  REQUIRE_FALSE(removed);
  CHECK_THAT(removed.error().message,
             ContainsSubstring("cannot remove '") && ContainsSubstring("Permission denied"));
}
