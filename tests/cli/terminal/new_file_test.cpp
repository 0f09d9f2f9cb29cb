#include "cli/terminal/files.h"

#include "tests/catch.h"
#include "tests/cli/folder.h"

using namespace muster;

TEST_CASE("a new file is written once, never over another, and not into a folder that is missing") {
  Folder folder;
  const std::string path = (folder.path() / "job.yml").string();
  write_new_file(path, "text");
  CHECK(std::filesystem::file_size(path) == 4);
  CHECK_THROWS_WITH(write_new_file(path, "other text"), ContainsSubstring("exists; choose"));
  CHECK(std::filesystem::file_size(path) == 4);
  CHECK_THROWS_WITH(write_new_file((folder.path() / "a" / "b" / "job.yml").string(), "text"),
                    ContainsSubstring("make it first"));
  CHECK_FALSE(std::filesystem::exists(folder.path() / "a"));
}
