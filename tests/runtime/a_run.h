// Builds whole runs for tests.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "runtime/protocol/start_error.h"
#include "runtime/train/run.h"
#include "tests/catch.h"
#include "tests/runtime/folder.h"
#include "tests/runtime/thread_communicator.h"

namespace muster::test {

// A run of a tiny model on the sources of this folder, ranks as threads.
struct ARun {
  std::string out;
  std::size_t ranks = 1;
  TrainOptions options = tiny();
  RankVariables variables = {};
  // Where a rank keeps its checkpoints, when each has a directory of its own.
  std::function<std::string(std::size_t)> own_directory = {};

  static TrainOptions tiny() {
    TrainOptions options;
    options.data = {std::string(MUSTER_SOURCE_DIR) + "/tests/runtime"};
    options.shape = {1, 16, 2, 16};
    options.batch = 8;
    options.steps = 12;
    options.checkpoint_every = 5;
    options.learning_rate = {1e-2, 2, 0};
    options.deterministic = true;
    options.log_every = 1;
    return options;
  }

  ARun with(const std::function<void(TrainOptions&)>& change) const {
    ARun changed = *this;
    change(changed.options);
    return changed;
  }

  // The exit code, or the complaint of a start that failed.
  std::string go() const {
    TrainOptions mine = options;
    mine.out = out;
    std::vector<std::string> results(ranks);
    ThreadWorld(ranks).run([&](Communicator& rank) {
      TrainOptions own = mine;
      if (own_directory) own.checkpoint_dir = own_directory(rank.rank());
      try {
        results[rank.rank()] = std::to_string(run_training(own, variables, rank));
      } catch (const StartError& error) {
        results[rank.rank()] = error.what();
      }
    });
    for (const std::string& result : results) CHECK(result == results[0]);
    return results[0];
  }

  std::string weights() const { return content_of(out + "/model.safetensors"); }
};

}  // namespace muster::test
