#include "launcher/staging/trees_file.h"

#include "launcher/staging/file_sink.h"
#include "tests/launcher/staging/trees.h"

using namespace muster;

TEST_CASE("trees come back as they were saved, names of any bytes included") {
  Folder folder;
  Tree tree;
  tree.place = "inputs/data";
  tree.writable = false;
  tree.entries = {a_directory("d"), a_file("d/50%", {std::string(64, 'a'), 7}, 0755),
                  a_file("\xff\xfe%41", {std::string(64, 'b'), 0}),
                  a_file("gr\xc3\xbc\xc3\x9f\n", {}), a_link("l", "d/\x80")};
  REQUIRE(save_trees(folder / "trees.json", {tree, Tree{}}));
  const auto loaded = load_trees(folder / "trees.json");
  REQUIRE(loaded);
  REQUIRE(loaded->size() == 2);
  const Tree& back = loaded->front();
  CHECK(back.place == "inputs/data");
  CHECK_FALSE(back.writable);
  CHECK(paths_of(back) == paths_of(tree));
  CHECK(back.entries[1].mode == 0755);
  CHECK(back.entries[1].size_bytes == 7);
  CHECK(back.entries[1].hash == std::string(64, 'a'));
  CHECK(back.entries[4].target == "d/\x80");
  CHECK(back.entries[4].entry_kind == TreeEntry::Kind::link);
  CHECK_THAT(folder.read("trees.json"), ContainsSubstring("gr\xc3\xbc\xc3\x9f"));
}

TEST_CASE("a trees file that cannot be used says which and why") {
  Folder folder;
  CHECK_THAT(load_trees(folder / "absent").error().message, ContainsSubstring("No such file"));
  folder.write("broken", "{\"version\": 1, ");
  CHECK_THAT(load_trees(folder / "broken").error().message, ContainsSubstring("cannot be read"));
  folder.write("newer", "{\"version\": 2, \"trees\": []}");
  CHECK_THAT(load_trees(folder / "newer").error().message, ContainsSubstring("newer muster"));
  folder.write("odd", R"({"version": 1, "trees": [{"entries": [{"path": "a%4"}]}]})");
  CHECK_THAT(load_trees(folder / "odd").error().message, ContainsSubstring("hex digits"));
  CHECK_THAT(save_trees(folder / "no/such/dir", {}).error().message,
             ContainsSubstring("cannot write"));
}

TEST_CASE("what is settled comes back as it was saved, names of any bytes included") {
  Folder folder;
  const SettledFiles settled{{"outputs", "directory"},
                             {"outputs/50%", "file " + std::string(64, 'a')},
                             {"outputs/\xff\xfe", "link to \x80"}};
  REQUIRE(save_settled(folder / "attempt-3/settled.json", settled));
  const auto back = load_settled(folder / "attempt-3/settled.json");
  REQUIRE(back);
  CHECK(*back == settled);
}

TEST_CASE("a list of settled files that cannot be used says which and why; none is an empty one") {
  Folder folder;
  REQUIRE(load_settled(folder / "absent"));
  CHECK(load_settled(folder / "absent")->empty());
  folder.write("broken", "{\"version\": 1, ");
  CHECK_THAT(load_settled(folder / "broken").error().message, ContainsSubstring("cannot be read"));
  folder.write("newer", "{\"version\": 2, \"files\": {}}");
  CHECK_THAT(load_settled(folder / "newer").error().message, ContainsSubstring("newer muster"));
  folder.write("odd", R"({"version": 1, "files": {"a%4": "directory"}})");
  CHECK_THAT(load_settled(folder / "odd").error().message, ContainsSubstring("hex digits"));
  folder.write("number", R"({"version": 1, "files": {"a": 7}})");
  CHECK_THAT(load_settled(folder / "number").error().message, ContainsSubstring("cannot be read"));
  folder.write("file", "in the way");
  CHECK_THAT(save_settled(folder / "file/settled.json", {}).error().message,
             ContainsSubstring("cannot write"));
}
