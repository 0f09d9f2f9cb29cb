#include "launcher/staging/materialize.h"

#include "tests/launcher/staging/trees.h"

namespace muster {

namespace {

void close_to_all(const Folder& folder, const std::string& name, int mode = 0) {
  REQUIRE(::chmod((folder / name).c_str(), static_cast<mode_t>(mode)) == 0);
}

}  // namespace

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

}  // namespace muster
