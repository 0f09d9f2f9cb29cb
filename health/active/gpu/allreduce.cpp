#include <array>
#include <cstdlib>
#include <memory>
#include <numeric>
#include <string>

#include "health/active/gpu/gpu_probes.h"
#include "health/active/gpu/gpu_timing.h"
#include "health/active/probe_line.h"

#ifdef MUSTER_HAS_NCCL

#include <nccl.h>

namespace muster {

namespace {

// Large enough for the full speed of any link; a smaller one where the memory is short.
constexpr std::size_t most_bytes = 4ull << 30;
constexpr double memory_share = 0.25;
constexpr float own_value = 1;

void require_nccl(ncclResult_t result, const char* call) {
  if (result == ncclSuccess) return;
  throw GpuFailure(std::string(call) + ": " + ncclGetErrorString(result));
}

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

// What one GPU puts in and gets out.
struct Member {
  explicit Member(std::size_t bytes) : send(bytes), receive(bytes) {}
  GpuMemory send;
  GpuMemory receive;
  GpuStream stream;
};

std::size_t bytes_for(int gpus) {
  std::size_t bytes = most_bytes;
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

class Ring {
 public:
  explicit Ring(int gpus) : bytes_(bytes_for(gpus)), communicators_(gpus) {
    const std::vector<float> ones(bytes_ / sizeof(float), own_value);
    for (int gpu = 0; gpu < gpus; ++gpu) {
      require_cuda(cudaSetDevice(gpu), "cudaSetDevice");
      members_.push_back(std::make_unique<Member>(bytes_));
      require_cuda(
          cudaMemcpy(members_.back()->send.at(), ones.data(), bytes_, cudaMemcpyHostToDevice),
          "cudaMemcpy");
    }
  }

  double bus_gb_per_s(std::chrono::milliseconds time) {
    require_cuda(cudaSetDevice(0), "cudaSetDevice");
    // The first GPU's clock: it is done when all have given and got everything.
    const double seconds =
        seconds_of_rounds(members_.front()->stream, time, [this](cudaStream_t) { reduce(); });
    for (const auto& member : members_) member->stream.wait();
    const auto count = static_cast<double>(members_.size());
    return 2 * (count - 1) / count * static_cast<double>(bytes_) / seconds / 1e9;
  }

  void check_sums() const {
    const std::size_t last = bytes_ / sizeof(float) - 1;
    for (const auto& member : members_) {
      for (const std::size_t at : {std::size_t{0}, last / 3, last}) {
        float sum = 0;
        require_cuda(cudaMemcpy(&sum, static_cast<const float*>(member->receive.at()) + at,
                                sizeof sum, cudaMemcpyDeviceToHost),
                     "cudaMemcpy");
        if (sum != own_value * static_cast<float>(members_.size()))
          throw GpuFailure("a GPU got a wrong sum");
      }
    }
  }

 private:
  void reduce() {
    require_nccl(ncclGroupStart(), "ncclGroupStart");
    for (std::size_t gpu = 0; gpu < members_.size(); ++gpu) {
      const Member& member = *members_[gpu];
      require_nccl(ncclAllReduce(member.send.at(), member.receive.at(), bytes_ / sizeof(float),
                                 ncclFloat, ncclSum, communicators_.of(gpu), member.stream.get()),
                   "ncclAllReduce");
    }
    require_nccl(ncclGroupEnd(), "ncclGroupEnd");
  }

  std::size_t bytes_;
  Communicators communicators_;
  std::vector<std::unique_ptr<Member>> members_;
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
