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
      : watch(tasks, {directory, {}, {}, is_near},
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

TEST_CASE("another program's checkpoint is news when two looks agree, and none beside muster's") {
  Folder folder;
  boost::asio::io_context io;
  ChildTasks tasks{io};
  std::vector<CheckpointRef> told;
  SavePlaces places = save_places("", {folder / "ckpt", folder / "outputs"}, {});
  CheckpointWatch watch(tasks, places, [&](const CheckpointRef& ref) { told.push_back(ref); });
  auto later = CheckpointWatch::Clock::now();
  const auto look = [&] {  // after the pause that follows a look
    watch.poll(later += std::chrono::hours{1});
    io.restart();
    io.run_for(seconds{5});
  };
  watch.poll(CheckpointWatch::Clock::now());
  put(folder / "outputs/model_40.pt", std::string("PK\3\4PK\5\6") + std::string(18, '\0'));
  look();
  CHECK(told.empty());  // it may still be written
  look();
  REQUIRE(told.size() == 1);
  CHECK(told.front().kind == "torch");
  CHECK(told.front().step == 40);
  CHECK(told.front().directory == folder / "outputs/model_40.pt");
  look();
  CHECK(told.size() == 1);
  seal(folder / "ckpt", 10);
  look();
  look();
  REQUIRE(told.size() == 2);
  CHECK_FALSE(told.back().is_foreign());
  ForeignSaves none;
  none.format = "none";
  CHECK(save_places("/p", {"/own", "/out"}, none).foreign.empty());
  CHECK(save_places("/p", {"/own", "/out"}, {}).foreign == std::vector<std::string>{"/p", "/out"});
  CHECK_FALSE(save_places("/p", {"/own", "/out"}, {}).is_near);
}

TEST_CASE("another program's checkpoint is news although a newer one comes before each look") {
  Folder folder;
  boost::asio::io_context io;
  ChildTasks tasks{io};
  std::vector<std::int64_t> told;
  CheckpointWatch watch(tasks, save_places("", {folder / "ckpt", folder / "outputs"}, {}),
                        [&](const CheckpointRef& ref) { told.push_back(ref.step); });
  auto later = CheckpointWatch::Clock::now();
  watch.poll(later);
  const auto save_and_look = [&](int step, const std::string& end) {
    put(folder / ("outputs/model_" + std::to_string(step) + ".pt"), "PK\3\4" + end);
    watch.poll(later += std::chrono::hours{1});
    io.restart();
    io.run_for(seconds{5});
  };
  const std::string whole = "PK\5\6" + std::string(18, '\0');
  save_and_look(10, whole);
  CHECK(told.empty());
  save_and_look(20, whole);
  CHECK(told == std::vector<std::int64_t>{10});
  save_and_look(30, "no end");
  CHECK(told == std::vector<std::int64_t>{10, 20});
  save_and_look(20, whole + whole);  // written again: not what was seen
  CHECK(told == std::vector<std::int64_t>{10, 20});
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
