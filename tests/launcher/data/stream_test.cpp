// What is left of streams, and whom their troubles are told of. Mounts are in tests/e2e.
#include "launcher/data/stream.h"

#include "tests/catch.h"
#include "tests/launcher/staging/folder.h"

namespace muster {
namespace {

// As a keeper that was killed leaves it; rclone kept its part at `kept`.
std::filesystem::path leave_stream(const Folder& folder, int attempt, const std::string& kept) {
  StagedData data;
  data.input = "data";
  const auto directory = stream_directory(folder.path(), JobId{"job"}, AttemptId{attempt}, data);
  const std::string name = directory.lexically_relative(folder.path()).string();
  folder.directory(name + "/mount");
  folder.link(name + "/cache", folder / kept);
  folder.write(name + ".lock", "");
  return directory;
}

}  // namespace

TEST_CASE(
    "a stream that nobody holds is removed with what was kept of it, one that is held stays") {
  const Folder folder;
  folder.write("data/streams/job.1.data.7/part", "x");
  const auto directory = leave_stream(folder, 1, "data/streams/job.1.data.7");
  {
    const auto held = hold_stream(directory);
    REQUIRE(held);
    remove_left_streams(folder.path());
    CHECK(std::filesystem::exists(directory / "mount"));
    CHECK(std::filesystem::exists(folder / "data/streams/job.1.data.7/part"));
  }
  remove_left_streams(folder.path());
  CHECK(!std::filesystem::exists(directory));
  CHECK(!std::filesystem::exists(directory.string() + ".lock"));
  CHECK(!std::filesystem::exists(folder / "data/streams/job.1.data.7"));
}

TEST_CASE("a link that leads elsewhere than to what streams keep is only unlinked") {
  const Folder folder;
  folder.write("precious/thesis", "x");
  const auto directory = leave_stream(folder, 1, "precious");
  remove_left_streams(folder.path());
  CHECK(!std::filesystem::exists(directory));
  CHECK(std::filesystem::exists(folder / "precious/thesis"));
}

TEST_CASE("a store that does not answer is told of the attempt that reads it") {
  const Folder folder;
  leave_stream(folder, 1, "kept");
  CHECK(trouble_of_streams(folder.path(), JobId{"job"}, AttemptId{1}).empty());
  folder.write("streams/job.1.data/why", "storage: away");
  CHECK(trouble_of_streams(folder.path(), JobId{"job"}, AttemptId{1}) == "storage: away");
  CHECK(trouble_of_streams(folder.path(), JobId{"job"}, AttemptId{11}).empty());
  CHECK(trouble_of_streams(folder.path(), JobId{"jo"}, AttemptId{1}).empty());
}

}  // namespace muster
