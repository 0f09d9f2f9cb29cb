#include <cstdint>

#include "health/active/gpu/gpu_probes.h"
#include "health/active/gpu/gpu_timing.h"
#include "health/benchmark/tools/sample_line.h"

namespace muster {

namespace {

// Of the GPU's memory that is free: two arrays together take more than half of it.
constexpr double array_share = 0.35;
constexpr int threads = 512;
constexpr int blocks_per_processor = 8;
constexpr unsigned pattern = 0x9e3779b9u;

__global__ void write_all(uint4* to, std::size_t count, unsigned word) {
  const std::size_t step = static_cast<std::size_t>(gridDim.x) * blockDim.x;
  for (std::size_t i = blockIdx.x * static_cast<std::size_t>(blockDim.x) + threadIdx.x; i < count;
       i += step)
    to[i] = make_uint4(word, word, word, word);
}

__global__ void copy_all(uint4* to, const uint4* from, std::size_t count) {
  const std::size_t step = static_cast<std::size_t>(gridDim.x) * blockDim.x;
  for (std::size_t i = blockIdx.x * static_cast<std::size_t>(blockDim.x) + threadIdx.x; i < count;
       i += step)
    to[i] = from[i];
}

// Sets a bit of `differing` for every bit in which a word is another one.
__global__ void read_all(const uint4* from, std::size_t count, unsigned word,
                         unsigned* differing) {
  const std::size_t step = static_cast<std::size_t>(gridDim.x) * blockDim.x;
  unsigned other = 0;
#pragma unroll 4
  for (std::size_t i = blockIdx.x * static_cast<std::size_t>(blockDim.x) + threadIdx.x; i < count;
       i += step) {
    const uint4 four = from[i];
    other |= (four.x ^ word) | (four.y ^ word) | (four.z ^ word) | (four.w ^ word);
  }
  if (other != 0) atomicOr(differing, other);
}

int blocks_of(int gpu) {
  int processors = 0;
  require_cuda(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, gpu),
               "cudaDeviceGetAttribute");
  return processors * blocks_per_processor;
}

std::size_t array_bytes() {
  std::size_t free_bytes = 0;
  std::size_t total_bytes = 0;
  require_cuda(cudaMemGetInfo(&free_bytes, &total_bytes), "cudaMemGetInfo");
  const auto bytes = static_cast<std::size_t>(static_cast<double>(free_bytes) * array_share);
  return bytes / (1u << 20) * (1u << 20);
}

// The arrays of one GPU, and what is done to them.
class MemoryRun {
 public:
  MemoryRun(int gpu, std::chrono::milliseconds time)
      : time_(time),
        blocks_(blocks_of(gpu)),
        from_(array_bytes()),
        to_(from_.bytes()),
        differing_(sizeof(unsigned)),
        count_(from_.bytes() / sizeof(uint4)) {}

  double write_mb_per_s() { return mb_per_s(seconds([&](cudaStream_t on) { write(from(), on); })); }
  double copy_mb_per_s() {
    return 2 * mb_per_s(seconds([&](cudaStream_t on) {
             copy_all<<<blocks_, threads, 0, on>>>(to(), from(), count_);
           }));
  }
  // Of what was copied, so that it tells of copies too.
  double read_mb_per_s() {
    require_cuda(cudaMemset(differing_.at(), 0, sizeof(unsigned)), "cudaMemset");
    return mb_per_s(seconds([&](cudaStream_t on) {
      read_all<<<blocks_, threads, 0, on>>>(to(), count_, pattern,
                                            static_cast<unsigned*>(differing_.at()));
    }));
  }
  bool is_as_written() const {
    unsigned bits = 0;
    require_cuda(cudaMemcpy(&bits, differing_.at(), sizeof bits, cudaMemcpyDeviceToHost),
                 "cudaMemcpy");
    return bits == 0;
  }

 private:
  uint4* from() const { return static_cast<uint4*>(from_.at()); }
  uint4* to() const { return static_cast<uint4*>(to_.at()); }
  void write(uint4* where, cudaStream_t on) const {
    write_all<<<blocks_, threads, 0, on>>>(where, count_, pattern);
  }
  template <class Work>
  double seconds(Work work) {
    return seconds_of_rounds(stream_, time_, [&](cudaStream_t on) {
      work(on);
      require_cuda(cudaGetLastError(), "a kernel's start");
    });
  }
  double mb_per_s(double seconds) const {
    return static_cast<double>(from_.bytes()) / seconds / 1e6;
  }

  std::chrono::milliseconds time_;
  int blocks_;
  GpuMemory from_;
  GpuMemory to_;
  GpuMemory differing_;
  std::size_t count_;
  GpuStream stream_;
};

void probe_memory_of(int gpu, std::chrono::milliseconds time) {
  const std::string name = gpu_name(gpu);
  const char* metric = "hbm_write_mb_per_s";
  try {
    require_cuda(cudaSetDevice(gpu), "cudaSetDevice");
    MemoryRun run(gpu, time);
    print_probe_value(metric, name, run.write_mb_per_s());
    metric = "hbm_mb_per_s";
    print_probe_value(metric, name, run.copy_mb_per_s());
    metric = "hbm_read_mb_per_s";
    const double read = run.read_mb_per_s();
    if (!run.is_as_written()) throw GpuFailure("other bits are read than were written");
    print_probe_value(metric, name, read);
  } catch (const GpuFailure& failure) {
    // Those after it were not tried on this GPU.
    bool is_missing = false;
    for (const char* each : {"hbm_write_mb_per_s", "hbm_mb_per_s", "hbm_read_mb_per_s"}) {
      is_missing = is_missing || std::string(each) == metric;
      if (is_missing) print_probe_error(each, name, failure.what());
    }
  }
}

}  // namespace

void probe_gpu_memory(const GpuRun& run) {
  const auto time = run.time / (run.gpus * 3);
  for (int gpu = 0; gpu < run.gpus; ++gpu) probe_memory_of(gpu, time);
}

}  // namespace muster
