#include "templates/cluster/file.h"

#include <filesystem>
#include <fstream>
#include <sstream>

#include "tests/catch.h"
#include "tests/templates/files_in_memory.h"

namespace muster {
namespace {

std::string findings_in(const std::string& text) {
  return printed(read_retention_file("retention.yml", text).findings);
}

TEST_CASE("the shipped retention.yml holds the defaults") {
  std::ifstream file(std::filesystem::path(MUSTER_SOURCE_DIR) / "configs/retention.yml");
  std::stringstream text;
  text << file.rdbuf();
  const RetentionFile read = read_retention_file("retention.yml", text.str());
  CHECK(printed(read.findings) == "");
  CHECK(read.keep == usual_retention);
}

TEST_CASE("what is given in retention.yml replaces the default, and never keeps for ever") {
  const RetentionFile read =
      read_retention_file("retention.yml", "journal: never\njob_folders: 180d\n");
  CHECK(printed(read.findings) == "");
  CHECK(!read.keep.journal);
  CHECK(read.keep.job_folders == days(180));
  CHECK(read.keep.blobs == usual_retention.blobs);
}

TEST_CASE("a retention.yml that cannot be meant is an error") {
  CHECK_THAT(findings_in("journal: 23h\n"), ContainsSubstring("at least 1d"));
  CHECK_THAT(findings_in("blobs: soon\n"), ContainsSubstring("expected a duration"));
  CHECK_THAT(findings_in("blob: 3d\n"), ContainsSubstring("did you mean 'blobs'"));
}

}  // namespace
}  // namespace muster
