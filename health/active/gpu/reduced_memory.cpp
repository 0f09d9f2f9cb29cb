#include "health/active/gpu/reduced_memory.h"

#include <algorithm>

namespace muster {

namespace {

constexpr double memory_share = 0.25;
constexpr float own_value = 1;
// Copied from the host; the GPU doubles them.
constexpr std::size_t first_bytes = 64ull << 20;

void fill(const GpuMemory& memory, const std::vector<float>& first) {
  auto* bytes = static_cast<char*>(memory.at());
  std::size_t filled = std::min(memory.bytes(), first.size() * sizeof(float));
  require_cuda(cudaMemcpy(bytes, first.data(), filled, cudaMemcpyHostToDevice), "cudaMemcpy");
  while (filled < memory.bytes()) {
    const std::size_t more = std::min(filled, memory.bytes() - filled);
    require_cuda(cudaMemcpy(bytes + filled, bytes, more, cudaMemcpyDeviceToDevice), "cudaMemcpy");
    filled += more;
  }
}

}  // namespace

ReducedMemory::ReducedMemory(int gpus, std::size_t bytes) {
  const std::vector<float> ones(std::min(first_bytes, bytes) / sizeof(float), own_value);
  for (int gpu = 0; gpu < gpus; ++gpu) {
    require_cuda(cudaSetDevice(gpu), "cudaSetDevice");
    gpus_.push_back(std::make_unique<ReducingGpu>(bytes));
    fill(gpus_.back()->send, ones);
    // Copies within a GPU may go on after their call.
    require_cuda(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  }
}

void ReducedMemory::check_sums(int ranks, std::size_t bytes) const {
  const std::size_t last = bytes / sizeof(float) - 1;
  for (const auto& gpu : gpus_) {
    for (const std::size_t at : {std::size_t{0}, last / 3, last}) {
      float sum = 0;
      require_cuda(cudaMemcpy(&sum, static_cast<const float*>(gpu->receive.at()) + at, sizeof sum,
                              cudaMemcpyDeviceToHost),
                   "cudaMemcpy");
      if (sum != own_value * static_cast<float>(ranks)) throw GpuFailure("a GPU got a wrong sum");
    }
  }
}

std::size_t reducible_bytes(int gpus, std::size_t most) {
  std::size_t bytes = most;
  for (int gpu = 0; gpu < gpus; ++gpu) {
    std::size_t free_bytes = 0;
    std::size_t total_bytes = 0;
    require_cuda(cudaSetDevice(gpu), "cudaSetDevice");
    require_cuda(cudaMemGetInfo(&free_bytes, &total_bytes), "cudaMemGetInfo");
    bytes =
        std::min(bytes, static_cast<std::size_t>(static_cast<double>(free_bytes) * memory_share));
  }
  return bytes / (1u << 20) * (1u << 20);
}

}  // namespace muster
