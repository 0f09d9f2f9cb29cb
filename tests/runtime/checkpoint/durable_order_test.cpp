// The order in which names are made durable: what a loss of power at any moment leaves depends on
// it, and no test can cut the power. This program's own fsync tells what it was called for.

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <vector>

#include "runtime/checkpoint/choose.h"
#include "runtime/checkpoint/commit.h"
#include "runtime/checkpoint/file/durable_file.h"
#include "tests/catch.h"
#include "tests/runtime/a_checkpoint.h"
#include "tests/runtime/folder.h"

using namespace muster;
using namespace muster::test;

namespace fs = std::filesystem;

namespace {

struct Synced {
  std::string path;
  bool has_manifest = false;  // where it is a directory
  friend bool operator==(const Synced&, const Synced&) = default;
};

std::vector<Synced>* watched = nullptr;

// All that is synced while this lives.
class SyncWatch {
 public:
  SyncWatch() { watched = &seen_; }
  ~SyncWatch() { watched = nullptr; }
  // Place in the order of the first like this; the number of all: none.
  std::size_t place(const std::string& path, bool has_manifest) const {
    const Synced wanted{path, has_manifest};
    return static_cast<std::size_t>(std::find(seen_.begin(), seen_.end(), wanted) - seen_.begin());
  }
  std::size_t count() const { return seen_.size(); }

 private:
  std::vector<Synced> seen_;
};

}  // namespace

extern "C" int fsync(int fd) {
  if (watched != nullptr) {
    std::error_code code;
    const std::string path = fs::read_symlink("/proc/self/fd/" + std::to_string(fd), code);
    watched->push_back({path, fs::exists(path + "/manifest.json", code)});
  }
  return static_cast<int>(::syscall(SYS_fsync, fd));
}

TEST_CASE("before the manifest has its name, those of the shards and of their folder are durable") {
  Folder folder;
  const ACheckpoint saved{.root = fs::canonical(folder.path())};
  const Manifest manifest = saved.manifest_with_shards();
  SyncWatch watch;
  REQUIRE(commit_checkpoint(saved.root, manifest).ok());
  const std::size_t commit = watch.place(saved.path(), true);
  CHECK(commit < watch.count());
  CHECK(watch.place(saved.path(), false) < commit);
  CHECK(watch.place(saved.root, false) < commit);
}

TEST_CASE("a checkpoint's folder is durable in its parent before anything is written into it") {
  Folder folder;
  const std::string root = fs::canonical(folder.path());
  SyncWatch watch;
  REQUIRE(prepare_checkpoint_directory(root, 10, 1).ok());
  CHECK(watch.place(root, false) < watch.count());
}

TEST_CASE("a checkpoint that goes is without a manifest on the disk before it loses its name") {
  Folder folder;
  const std::string root = fs::canonical(folder.path());
  for (const std::uint64_t step : {10, 20, 30}) ACheckpoint{.root = root, .step = step}.commit();
  SyncWatch watch;
  REQUIRE(collect_checkpoints(root, {2, 1, 30}).ok());
  CHECK_FALSE(fs::exists(root + "/s000000010-g1"));
  CHECK(watch.place(root + "/s000000010-g1", false) < watch.count());
}

TEST_CASE("a line of the log and a file that is replaced are durable with their names") {
  Folder folder;
  const std::string root = fs::canonical(folder.path());
  SyncWatch watch;
  REQUIRE(append_line_durably(root, "log", "{\"x\":1}").ok());
  CHECK(watch.place(root + "/log", false) < watch.place(root, false));
  const std::size_t before = watch.count();
  REQUIRE(replace_durably(root, "LATEST", "s000000010-g1\n").ok());
  CHECK(watch.count() > before);
}
