// What the GPUs of this node put into an all-reduce and get out of it. Each rank gives ones, so
// that every sum is the number of ranks.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "health/active/gpu/cuda_resource.h"

namespace muster {

struct ReducingGpu {
  explicit ReducingGpu(std::size_t bytes) : send(bytes), receive(bytes) {}
  GpuMemory send;
  GpuMemory receive;
  GpuStream stream;
};

class ReducedMemory {
 public:
  ReducedMemory(int gpus, std::size_t bytes);

  std::size_t gpus() const { return gpus_.size(); }
  const ReducingGpu& of(std::size_t gpu) const { return *gpus_[gpu]; }
  // Throws GpuFailure: a sum of the first so many bytes is not `ranks`. Some of them are looked at.
  void check_sums(int ranks, std::size_t bytes) const;

 private:
  std::vector<std::unique_ptr<ReducingGpu>> gpus_;
};

// At most `most`, and so much that each GPU has room for it twice; whole MiB.
std::size_t reducible_bytes(int gpus, std::size_t most);

}  // namespace muster
