// Where the weights lie that the model computes with.
//
//   begin_step()   the own weights are what they will be in this step
//   take(), done() around each use of a block; blocks come in order, up and down again
//   idle_pass()    takes part in the others' transfers where this rank has nothing to compute
//   updated()      after each piece of the flat space whose own part was updated
//   finish()       the step is over
//
// Two ways: all weights on every rank, and only the own ones with the layers at work. Collective.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "runtime/communicator/communicator.h"
#include "runtime/zero/bucket.h"

namespace muster {

class WeightMemory {
 public:
  virtual ~WeightMemory() = default;
  virtual void begin_step(std::span<float> weights) = 0;
  virtual std::span<const float> take(std::size_t block) = 0;
  virtual void idle_pass() {}
  virtual void updated(const ElementRange&) {}
  virtual void progress() = 0;  // never blocks
  virtual void finish() = 0;
};

using Transfers = std::vector<std::unique_ptr<Transfer>>;

// Every rank holds all weights; owners send theirs to all as they are updated.
class WholeWeights final : public WeightMemory {
 public:
  // `shares`: whether there is anything to send, as opposed to all ranks updating all weights.
  // Everything passed by reference outlives this.
  WholeWeights(std::span<const ElementRange> blocks, const Division& division, Communicator& ranks,
               bool shares, double& spent_s);

  void begin_step(std::span<float> weights) override { weights_ = weights; }  // all of them
  std::span<const float> take(std::size_t block) override {
    return weights_.subspan(blocks_[block].lo, blocks_[block].size());
  }
  void updated(const ElementRange& piece) override;
  void progress() override;
  void finish() override;

 private:
  std::span<const ElementRange> blocks_;
  const Division& division_;
  Communicator& ranks_;
  bool shares_;
  double& spent_s_;
  std::span<float> weights_;
  Transfers under_way_;
};

// A rank holds what it owns, copies of the first and the last block (embeddings, norm and head),
// and of two buckets of layers: the one at work and the next one, which is gathered meanwhile. With
// contiguous ownership most buckets come from one rank; a rank computes with its own ones where
// they are.
class ShardedWeights final : public WeightMemory {
 public:
  // `most_bytes`: of one transfer.
  ShardedWeights(std::span<const ElementRange> blocks, const BucketLimits& limits,
                 const Division& division, Communicator& ranks, double& spent_s);

  void begin_step(std::span<float> weights) override;  // the own ones
  std::span<const float> take(std::size_t block) override;
  void idle_pass() override;
  void progress() override;
  void finish() override;

 private:
  // A gathered part of the flat space.
  struct Copy {
    std::vector<float> memory;
    std::span<float> values;  // in memory, or where this rank owns all of it
    Transfers under_way;
  };
  struct Turn : Copy {
    std::optional<std::size_t> bucket;
  };

  void gather(const Bucket& bucket, Copy& copy);
  void wait_for(Copy& copy);
  Turn& turn_with(std::size_t bucket, const Turn* kept);
  std::span<const float> take_layer(std::size_t block);

  std::span<const ElementRange> blocks_;
  const Division& division_;
  Communicator& ranks_;
  double& spent_s_;
  std::span<float> own_;
  std::vector<Bucket> layers_;
  std::vector<std::size_t> bucket_of_;  // by block
  std::array<Bucket, 2> ends_;          // the first and the last block
  std::array<Copy, 2> end_copies_;
  std::array<Turn, 2> turns_;
  std::size_t last_taken_ = 0;  // block
};

}  // namespace muster
