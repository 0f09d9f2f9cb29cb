// What muster-gpu-probe measures, each with lines of its own for every GPU. A call that fails is
// that GPU's error line; a GPU that hangs is left to whoever kills the program.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace muster {

struct GpuRun {
  int gpus = 0;
  std::chrono::milliseconds time{10'000};  // of all together
};

// Of two nodes. The serving half waits for its partner instead, for `GpuRun::time`.
struct GpuPartner {
  std::string host;     // to connect to; empty: this half serves
  std::string address;  // to serve on; empty: all of this host
  std::uint16_t port = 0;
  std::string token;
  // To open communicators of some hundred connections, and for what is not counted.
  std::chrono::seconds limit{60};
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
// cuBLAS, bf16 on all GPUs at once, for all of the time: how steady each one's rate is. A part of
// a load on the whole node (burn_probe.h).
void probe_gpu_burn(const GpuRun& run);
// NCCL over all GPUs; `by_network`: without the links between them, as if each were a node.
void probe_gpu_allreduce(const GpuRun& run, bool by_network);
// NCCL over all GPUs of this node and of its partner. Ends by itself, whatever the partner does.
void probe_pair_allreduce(const GpuRun& run, const GpuPartner& partner);

// 22809; 0: this program is not built with NCCL. Asks no GPU.
int nccl_version();

}  // namespace muster
