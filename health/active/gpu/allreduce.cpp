#include <cstdlib>
#include <numeric>
#include <string>

#include "health/active/gpu/gpu_probes.h"
#include "health/active/gpu/gpu_timing.h"
#include "health/active/gpu/reduced_memory.h"
#include "health/benchmark/tools/sample_line.h"

#ifdef MUSTER_HAS_NCCL

#include "health/active/gpu/nccl_calls.h"

namespace muster {

namespace {

// Large enough for the full speed of any link; a smaller one where the memory is short.
constexpr std::size_t node_bytes_most = 4ull << 30;

class Communicators {
 public:
  explicit Communicators(int gpus) : all_(static_cast<std::size_t>(gpus)) {
    std::vector<int> numbers(all_.size());
    std::iota(numbers.begin(), numbers.end(), 0);
    require_nccl(ncclCommInitAll(all_.data(), gpus, numbers.data()), "ncclCommInitAll");
  }
  ~Communicators() {
    for (const ncclComm_t each : all_) ncclCommDestroy(each);
  }
  Communicators(const Communicators&) = delete;
  ncclComm_t of(std::size_t gpu) const { return all_[gpu]; }

 private:
  std::vector<ncclComm_t> all_;
};

class Ring {
 public:
  explicit Ring(int gpus)
      : bytes_(reducible_bytes(gpus, node_bytes_most)),
        communicators_(gpus),
        memory_(gpus, bytes_) {}

  double bus_gb_per_s(std::chrono::milliseconds time) {
    require_cuda(cudaSetDevice(0), "cudaSetDevice");
    // The first GPU's clock: it is done when all have given and got everything.
    const double seconds = seconds_of_rounds(memory_.of(0).stream, time, [this](cudaStream_t) {
      begin_sum(memory_, communicators_, bytes_);
    });
    for (std::size_t gpu = 0; gpu < memory_.gpus(); ++gpu) memory_.of(gpu).stream.wait();
    const auto count = static_cast<double>(memory_.gpus());
    return 2 * (count - 1) / count * static_cast<double>(bytes_) / seconds / 1e9;
  }

  void check_sums() const { memory_.check_sums(static_cast<int>(memory_.gpus()), bytes_); }

 private:
  std::size_t bytes_;
  Communicators communicators_;
  ReducedMemory memory_;
};

}  // namespace

void probe_gpu_allreduce(const GpuRun& run, bool by_network) {
  const std::string metric = by_network ? "ib_loop_allreduce_gb_per_s"
                                        : "allreduce" + std::to_string(run.gpus) + "_gb_per_s";
  if (run.gpus < 2) return print_probe_error(metric, "", "there is one GPU only");
  if (by_network) {
    setenv("NCCL_P2P_DISABLE", "1", 1);
    setenv("NCCL_SHM_DISABLE", "1", 1);
  }
  try {
    Ring ring(run.gpus);
    const double bandwidth = ring.bus_gb_per_s(run.time);
    ring.check_sums();
    print_probe_value(metric, "", bandwidth);
  } catch (const std::exception& failure) {
    print_probe_error(metric, "", failure.what());
  }
}

}  // namespace muster

#else

namespace muster {

void probe_gpu_allreduce(const GpuRun& run, bool by_network) {
  const std::string metric = by_network ? "ib_loop_allreduce_gb_per_s"
                                        : "allreduce" + std::to_string(run.gpus) + "_gb_per_s";
  print_probe_absent(metric, "", "muster-gpu-probe is not built with NCCL");
}

}  // namespace muster

#endif
