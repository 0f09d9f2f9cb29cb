#include <filesystem>
#include <functional>

#include "runtime/protocol/start_error.h"
#include "runtime/tokenize/tokenizer_file.h"
#include "runtime/train/step/training_data.h"
#include "tests/catch.h"
#include "tests/runtime/a_dataset.h"
#include "tests/runtime/thread_communicator.h"

using namespace muster;
using namespace muster::test;

namespace {

// What each rank ends with: "bytes/crc" of its data, or the complaint. `change` makes a rank's own
// options, and returns the host that it runs on.
std::vector<std::string> open_on(
    std::size_t ranks, const std::function<std::string(std::size_t, TrainOptions&)>& change) {
  std::vector<std::string> results(ranks);
  ThreadWorld(ranks).run([&](Communicator& rank) {
    TrainOptions options;
    options.shape.vocabulary = 0;
    const std::string host = change(rank.rank(), options);
    try {
      const TrainingDataPlan plan = plan_training_data(options, rank);
      const TrainingData data = open_training_data(plan.options, plan.dataset, {}, host, rank);
      results[rank.rank()] = std::to_string(data.fingerprint.data_bytes) + "/" +
                             std::to_string(data.fingerprint.data_crc32c);
    } catch (const StartError& error) {
      results[rank.rank()] = error.what();
    }
  });
  for (const std::string& result : results) CHECK(result == results[0]);
  return results;
}

std::string tokenizer_beside(const std::string& directory) {
  std::string tokenizer;
  ThreadWorld(1).run([&](Communicator& rank) {
    TrainOptions options;
    options.shape.vocabulary = 0;
    options.data = {directory};
    const TrainingDataPlan plan = plan_training_data(options, rank);
    tokenizer = open_training_data(plan.options, plan.dataset, {}, "node", rank).tokenizer;
  });
  return tokenizer;
}

std::string host_of(std::size_t rank) {
  return "node" + std::to_string(rank);
}

}  // namespace

TEST_CASE("any number of ranks finds the same data, with its index and without") {
  Folder folder;
  const ADataset set{folder / "set", 2000000, 700000};
  set.write();
  const auto data = [&](std::size_t, TrainOptions& options) {
    options.data = {folder / "set"};
    return std::string("node");
  };
  const std::string alone = open_on(1, data)[0];
  CHECK_THAT(alone, ContainsSubstring("/"));
  CHECK(open_on(3, data)[0] == alone);
  const auto own_nodes = [&](std::size_t rank, TrainOptions& options) {
    options.data = {folder / "set"};
    return host_of(rank);
  };
  CHECK(open_on(3, own_nodes)[0] == alone);
  std::filesystem::remove(folder / "set/muster-dataset.json");
  CHECK(open_on(3, data)[0] == alone);
  CHECK(open_on(2, own_nodes)[0] == alone);
}

TEST_CASE("damage in any rank's share, or in any node's own copy, stops all ranks") {
  Folder folder;
  const ADataset set{folder / "set", 2000000, 700000};
  set.write();
  std::filesystem::copy(folder / "set", folder / "copy");
  damage(folder / "copy/tokens-000002.bin", 5000);
  for (const bool same_node : {true, false}) {
    const std::string complaint = open_on(3, [&](std::size_t rank, TrainOptions& options) {
      options.data = {folder / (rank == 0 ? "set" : "copy")};
      return same_node ? std::string("node") : host_of(rank);
    })[0];
    CHECK_THAT(complaint, ContainsSubstring("copy/tokens-000002.bin: byte 0: the checksum"));
    CHECK_THAT(complaint, ContainsSubstring(same_node ? "rank 2: --data:" : "rank 1: --data:"));
  }
}

TEST_CASE("a tokenizer beside the tokens is that of the data only where it made them") {
  Folder folder;
  const std::string text = format_tokenizer(Tokenizer::of_bytes());
  ADataset set{folder / "set"};
  set.tokenizer_hash = tokenizer_hash(text);
  set.write();
  CHECK(tokenizer_beside(folder / "set") == "");
  put(folder / "set/tokenizer.json", text);
  CHECK(tokenizer_beside(folder / "set") == text);
  put(folder / "set/tokenizer.json", text + "\n");
  CHECK(tokenizer_beside(folder / "set") == "");
}

TEST_CASE("ranks that find different data do not begin") {
  Folder folder;
  ADataset{folder / "a", 1000}.write();
  ADataset{folder / "b", 1001}.write();
  ADataset{folder / "c", 1000, 300, 500, 1}.write();
  put(folder / "text/a.txt", "text");
  for (const std::string other : {"b", "c", "text"}) {
    const std::string complaint = open_on(2, [&](std::size_t rank, TrainOptions& options) {
      options.data = {folder / (rank == 0 ? "a" : other)};
      return host_of(rank);
    })[0];
    CHECK_THAT(complaint, ContainsSubstring("rank 1 reads another text than rank 0"));
  }
  // Equal sizes, other tokens: seen when all checksums are known.
  put(folder / "d/tokens-000000.bin", content_of(folder / "c/tokens-000001.bin"));
  put(folder / "e/tokens-000000.bin", content_of(folder / "c/tokens-000002.bin"));
  const std::string complaint = open_on(2, [&](std::size_t rank, TrainOptions& options) {
    options.data = {folder / (rank == 0 ? "d" : "e")};
    options.shape.vocabulary = 500;
    return host_of(rank);
  })[0];
  CHECK_THAT(complaint, ContainsSubstring("another text"));
  const std::string missing = open_on(2, [&](std::size_t rank, TrainOptions& options) {
    options.data = {folder / (rank == 0 ? "a" : "gone")};
    return host_of(rank);
  })[0];
  CHECK_THAT(missing,
             ContainsSubstring("gone does not exist") || ContainsSubstring("another text"));
}
