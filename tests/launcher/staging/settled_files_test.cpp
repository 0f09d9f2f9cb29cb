#include "launcher/staging/file_sink.h"

#include "tests/launcher/staging/trees.h"

namespace muster {

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

}  // namespace muster
