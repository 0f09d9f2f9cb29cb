// What muster-gpu-probe measures, each with lines of its own for every GPU. A call that fails is
// that GPU's error line; a GPU that hangs is left to whoever kills the program.
#pragma once

#include <chrono>

namespace muster {

struct GpuRun {
  int gpus = 0;
  std::chrono::milliseconds time{10'000};  // of all together
};

// Between pinned memory near the GPU and the GPU, one GPU after another.
void probe_host_copies(const GpuRun& run);
// From each GPU to each other one, as "gpu0:gpu1".
void probe_peer_copies(const GpuRun& run);
// Reads, writes and copies of more than half of the memory, by kernels; what is read must be what
// was written.
void probe_gpu_memory(const GpuRun& run);
// cuBLAS, on all GPUs at once, as they run in a job: bf16, then fp32. All must come to the same
// bits, first and last.
void probe_gpu_matrix(const GpuRun& run);
// cuBLAS, on all GPUs at once: bf16 and fp32 products of which every bit is known (product_sum.h).
// Prints the sums that each comes to again and again, and the right one, as the node's.
void probe_gpu_products(const GpuRun& run);
// NCCL over all GPUs; `by_network`: without the links between them, as if each were a node.
void probe_gpu_allreduce(const GpuRun& run, bool by_network);

}  // namespace muster
