// When an agent tells of a job's newest checkpoint.
#include "launcher/agent/watch/checkpoint.h"

#include <boost/asio/io_context.hpp>
#include <filesystem>

#include "tests/catch.h"
#include "tests/runtime/a_checkpoint.h"
#include "tests/runtime/folder.h"

using namespace muster;
using namespace muster::test;
using std::chrono::milliseconds;
using std::chrono::seconds;

namespace {

struct WatchedFolder {
  explicit WatchedFolder(const std::string& directory, bool is_near)
      : watch(tasks, directory, is_near,
              [this](const CheckpointRef& newest) { told.push_back(newest.step); }) {
    watch.poll(now);
  }
  void after(milliseconds time) {
    now += time;
    watch.poll(now);
    io.restart();
    io.run_for(seconds{5});  // until the child has answered
  }
  boost::asio::io_context io;
  ChildTasks tasks{io};
  CheckpointWatch::Clock::time_point now{seconds{1000}};
  std::vector<std::int64_t> told;
  CheckpointWatch watch;
};

std::string seal(const std::string& root, std::uint64_t step) {
  ACheckpoint one{.root = root, .step = step};
  one.commit();
  return one.path();
}

}  // namespace

TEST_CASE("each newer checkpoint is told once, within a second, wherever its directory is") {
  const bool is_near = GENERATE(true, false);
  Folder folder;
  const std::string root = folder.path() + "/ckpt";
  WatchedFolder watched(root, is_near);
  watched.after(seconds{1});
  CHECK(watched.told.empty());  // there is no such directory yet
  CHECK_FALSE(watched.watch.newest());
  const std::string first = seal(root, 10);
  watched.after(milliseconds{999});
  CHECK(watched.told.empty());
  watched.after(milliseconds{1});
  CHECK(watched.told == std::vector<std::int64_t>{10});
  REQUIRE(watched.watch.newest());
  CHECK(watched.watch.newest()->directory == first);
  watched.after(seconds{1});
  CHECK(watched.told.size() == 1);
  seal(root, 20);
  watched.after(seconds{1});
  watched.after(seconds{1});
  CHECK(watched.told == std::vector<std::int64_t>{10, 20});
  CHECK(watched.watch.newest()->step == 20);
}

TEST_CASE("a checkpoint that is gone, or seen again, is no news") {
  Folder folder;
  const std::string root = folder.path() + "/ckpt";
  seal(root, 10);
  WatchedFolder watched(root, true);
  watched.after(seconds{1});
  CHECK(watched.told == std::vector<std::int64_t>{10});
  std::filesystem::remove_all(root);
  watched.after(seconds{1});
  CHECK(watched.told.size() == 1);
  CHECK(watched.watch.newest()->step == 10);  // the newest that was seen
  seal(root, 10);
  watched.after(seconds{1});
  CHECK(watched.told.size() == 1);
}
