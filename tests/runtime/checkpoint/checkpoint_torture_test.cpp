// A process that saves and is killed with SIGKILL at random moments, a hundred times.

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "runtime/checkpoint/choose.h"
#include "runtime/checkpoint/commit.h"
#include "tests/catch.h"
#include "tests/runtime/a_checkpoint.h"
#include "tests/runtime/folder.h"

using namespace muster;
using namespace muster::test;

namespace {

constexpr int kills = 100;
constexpr std::uint64_t keep = 3;

// Saves step after step; each step is told through `told` once its commit has returned.
[[noreturn]] void save_for_ever(const std::string& root, std::uint64_t generation,
                                std::uint64_t step, int told) {
  const std::uint64_t fork_step = step;
  log_generation(root, generation, fork_step);
  while (true) {
    ++step;
    const ACheckpoint next{.root = root,
                           .step = step,
                           .generation = generation,
                           .seed = step,
                           .lineage = {{generation, fork_step}}};
    next.commit();
    if (::write(told, &step, sizeof step) != sizeof step) ::_exit(1);
    if (!collect_checkpoints(root, {keep, generation, step})) ::_exit(1);
  }
}

// What a saver may live: that of a save here and now twice over, so that some saves are done on a
// busy machine too.
std::chrono::microseconds life_max() {
  Folder folder;
  log_generation(folder.path(), 1, 0);
  const auto began = std::chrono::steady_clock::now();
  const ACheckpoint one{
      .root = folder.path(), .step = 1, .generation = 1, .seed = 1, .lineage = {{1, 0}}};
  one.commit();
  const auto took = std::chrono::duration_cast<std::chrono::microseconds>(
      std::chrono::steady_clock::now() - began);
  return std::max(std::chrono::microseconds(100'000), 2 * took);
}

// Starts a saver, lets it live for a random time and kills it; returns the last step it told.
std::uint64_t step_told_before_the_kill(const std::string& root, std::uint64_t generation,
                                        std::uint64_t step, std::chrono::microseconds life) {
  int pipe[2];
  REQUIRE(::pipe(pipe) == 0);
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) save_for_ever(root, generation, step, pipe[1]);
  ::close(pipe[1]);
  // The moment is the random input of this test, not a wait for something.
  const auto drawn = random_block(11, RandomPurpose::sample_order, 0, generation)[0];
  std::this_thread::sleep_for(std::chrono::microseconds(drawn % life.count()));
  ::kill(child, SIGKILL);
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  REQUIRE(WIFSIGNALED(status));
  for (std::uint64_t heard = 0; ::read(pipe[0], &heard, sizeof heard) == sizeof heard;) {
    step = heard;
  }
  ::close(pipe[0]);
  return step;
}

}  // namespace

TEST_CASE(
    "a saver killed a hundred times loses no step it told of, and never leaves wrong values") {
  Folder folder;
  const std::chrono::microseconds life = life_max();
  std::uint64_t told = 0;
  std::uint64_t step = 0;
  for (std::uint64_t generation = 1; generation <= kills; ++generation) {
    told = step_told_before_the_kill(folder.path(), generation, step, life);
    const CheckpointSearch search = search_checkpoints(folder.path());
    CAPTURE(generation, told);
    if (search.newest() == nullptr) {
      REQUIRE(told == 0);
      continue;
    }
    step = search.newest()->step;
    REQUIRE(step >= told);
    REQUIRE(step <= told + 1);
    const auto manifest = read_manifest(search.newest()->path);
    REQUIRE(manifest.ok());
    CheckpointReader reader(search.newest()->path, manifest.value());
    const Planes expected = some_planes(manifest.value().flat, step);
    std::vector<float> values(manifest.value().flat.numel);
    for (std::size_t plane = 0; plane < flat_planes; ++plane) {
      REQUIRE(reader.read(plane, 0, values).ok());
      REQUIRE(values == expected[plane]);
    }
  }
  CHECK(step > 1);
}
