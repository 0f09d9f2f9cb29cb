// When a checkpoint has proved itself, and what speaks against it; memory for saves.

#include <cmath>
#include <limits>

#include "runtime/checkpoint/choose.h"
#include "runtime/train/save/background.h"
#include "runtime/train/save/checkpoints.h"
#include "tests/catch.h"
#include "tests/runtime/a_run.h"
#include "tests/runtime/folder.h"
#include "tests/runtime/random_values.h"

using namespace muster;
using namespace muster::test;

namespace {

constexpr auto usual = LossWindow::Look::usual;
constexpr auto stands_out = LossWindow::Look::stands_out;
constexpr auto not_finite = LossWindow::Look::not_finite;

// Losses that fall from 11 to 3 with noise, norms about 1.
LossWindow a_window(std::size_t steps) {
  LossWindow window;
  const auto noise = normal_values(2 * steps, 9);
  for (std::size_t i = 0; i < steps; ++i) {
    const double fall = 8 * std::exp(-static_cast<double>(i) / 40);
    window.add(3 + fall + 0.1 * noise[2 * i], 1 + 0.1 * noise[2 * i + 1]);
  }
  return window;
}

}  // namespace

TEST_CASE("a loss or a gradient norm far from those before stands out, a usual one does not") {
  const LossWindow window = a_window(300);
  CHECK(window.look(3.0, 1.0) == usual);
  CHECK(window.look(3.3, 2.0) == usual);
  CHECK(window.look(30.0, 1.0) == stands_out);
  CHECK(window.look(3.0, 11.0) == stands_out);
  CHECK(window.look(std::nan(""), 1.0) == not_finite);
  CHECK(window.look(3.0, std::numeric_limits<double>::infinity()) == not_finite);
}

TEST_CASE("no step of an ordinary descent stands out") {
  LossWindow window;
  const auto noise = normal_values(600, 4);
  for (std::size_t i = 0; i < 600; ++i) {
    const double loss = 3 + 8 * std::exp(-static_cast<double>(i) / 40) + 0.05 * noise[i];
    CAPTURE(i, loss, window.loss_z(loss));
    REQUIRE(window.look(loss, 1.0) == usual);
    window.add(loss, 1.0);
  }
}

TEST_CASE("fewer than 20 steps say nothing, and a level that stays becomes the usual one") {
  LossWindow window = a_window(19);
  CHECK(window.look(1000, 1000) == usual);
  window = a_window(300);
  for (int i = 0; i < 150; ++i) window.add(30, 1);
  CHECK(window.look(30, 1) == usual);
}

TEST_CASE("a checkpoint is certified after as many usual steps as lie between two, 20 at least") {
  Certification quick(5);
  quick.committed("a", 10);
  for (std::uint64_t step = 11; step < 30; ++step) REQUIRE_FALSE(quick.step_done(step, usual));
  const auto due = quick.step_done(30, usual);
  REQUIRE(due);
  CHECK(due->directory == "a");
  CHECK(due->step == 10);
  CHECK(due->at_step == 30);
  Certification slow(100);
  slow.committed("a", 100);
  for (std::uint64_t step = 101; step < 200; ++step) REQUIRE_FALSE(slow.step_done(step, usual));
  CHECK(slow.step_done(200, usual));
}

TEST_CASE("one doubtful step denies the certificate to all that wait, and to none that follows") {
  const LossWindow::Look doubt = GENERATE(stands_out, not_finite);
  Certification certification(5);
  certification.committed("a", 10);
  certification.committed("b", 15);
  certification.step_done(16, doubt);
  certification.committed("late", 15);  // its commit was heard of after the doubt
  certification.committed("c", 20);
  for (std::uint64_t step = 21; step < 40; ++step) {
    REQUIRE_FALSE(certification.step_done(step, usual));
  }
  CHECK(certification.step_done(40, usual)->directory == "c");
}

TEST_CASE("of several that have proved themselves at once the newest is named") {
  Certification certification(1);
  certification.committed("a", 10);
  certification.committed("b", 11);
  CHECK(certification.step_done(50, usual)->directory == "b");
  CHECK_FALSE(certification.step_done(51, usual));
}

TEST_CASE("the oldest that waits is kept, and the newest takes its place") {
  Certification certification(1);
  CHECK_FALSE(certification.oldest());
  for (std::uint64_t step = 1; step <= 15; ++step) {
    certification.committed(std::to_string(step), step);
    CHECK(certification.oldest() == "1");
  }
  CHECK(certification.step_done(21, usual)->directory == "1");
  CHECK(certification.oldest() == "15");
}

TEST_CASE("retention leaves the checkpoint alone that is to be certified") {
  Folder folder;
  const ARun run = ARun{folder / "a", 2}.with([&](TrainOptions& options) {
    options.checkpoint_dir = folder / "ckpt";
    options.checkpoint_every = 1;
    options.save_mode = GENERATE(SaveMode::blocking, SaveMode::background);
    // A background save has to end while there still are steps that certify it.
    if (options.save_mode == SaveMode::background) options.step_delay_ms = 20;
    options.steps = 60;
    options.keep = 2;
  });
  REQUIRE(run.go() == "0");
  CHECK(search_checkpoints(folder / "ckpt").newest(CheckpointGrade::certified) != nullptr);
}

TEST_CASE("a run certifies its checkpoints, and one can go on from the newest certified one") {
  Folder folder;
  const ARun run = ARun{folder / "a", 2}.with([&](TrainOptions& options) {
    options.checkpoint_dir = folder / "ckpt";
    options.save_mode = GENERATE(SaveMode::blocking, SaveMode::background);
    // A background save has to end while there still are steps that certify it.
    if (options.save_mode == SaveMode::background) options.step_delay_ms = 20;
    options.steps = 60;
    options.keep = 100;
  });
  REQUIRE(run.go() == "0");
  const CheckpointSearch search = search_checkpoints(folder / "ckpt");
  REQUIRE(search.newest() != nullptr);
  CHECK(search.newest()->step == 60);
  CHECK(search.newest(CheckpointGrade::sane)->step == 60);
  const FoundCheckpoint* certified = search.newest(CheckpointGrade::certified);
  REQUIRE(certified != nullptr);
  CHECK(certified->step <= 40);
  if (run.options.save_mode == SaveMode::blocking) CHECK(certified->step >= 20);
  const std::string weights = run.weights();
  const ARun again = run.with([](TrainOptions& options) { options.resume = "certified"; });
  REQUIRE(again.go() == "0");
  CHECK(again.weights() == weights);
  const CheckpointSearch after = search_checkpoints(folder / "ckpt");
  CHECK(after.forks.back().fork_step == certified->step);
}

TEST_CASE("where nothing is certified, a start from a certified checkpoint says so") {
  Folder folder;
  ARun run = ARun{folder / "a", 1}.with([&](TrainOptions& options) {
    options.checkpoint_dir = folder / "ckpt";
    options.resume = "certified";
  });
  REQUIRE(run.go() == "0");  // an empty directory is a fresh start
  run.options.steps = 20;
  CHECK_THAT(run.go(), ContainsSubstring("s000000012-g1: is not certified"));
}

TEST_CASE("the memory a process may take is what the system and its groups leave") {
  Folder folder;
  CHECK_FALSE(available_memory_bytes(folder / "proc", folder / "cgroup"));
  put(folder / "proc/meminfo", "MemTotal:  100 kB\nMemFree: 10 kB\nMemAvailable:   50 kB\n");
  CHECK(available_memory_bytes(folder / "proc", folder / "cgroup") == 50 * 1024);
  put(folder / "proc/self/cgroup", "0::/jobs/one\n");
  put(folder / "cgroup/jobs/one/memory.max", "max\n");
  put(folder / "cgroup/jobs/one/memory.current", "7000\n");
  CHECK(available_memory_bytes(folder / "proc", folder / "cgroup") == 50 * 1024);
  put(folder / "cgroup/jobs/memory.max", "20000\n");
  put(folder / "cgroup/jobs/memory.current", "9000\n");
  put(folder / "cgroup/jobs/memory.stat", "anon 3000\ninactive_file 4000\nactive_file 1000\n");
  CHECK(available_memory_bytes(folder / "proc", folder / "cgroup") == 16000);
}

TEST_CASE("copies of all ranks of a host are held against its memory") {
  const HostMemory one{"h1", 400, 1000};
  const HostMemory two{"h2", 400, std::nullopt};
  CHECK(lack_of_memory({one, one, two}) == "");
  CHECK(lack_of_memory({two, two, two}) == "");
  CHECK_THAT(lack_of_memory({one, two, one, one}), ContainsSubstring(" on h1"));
}
