#include <cublas_v2.h>

#include <cstdint>
#include <cstring>
#include <map>
#include <optional>
#include <random>
#include <thread>

#include "health/active/burn_rate.h"
#include "health/active/gpu/gpu_probes.h"
#include "health/active/gpu/gpu_timing.h"
#include "health/benchmark/tools/sample_line.h"

namespace muster {

namespace {

constexpr int size = 8192;
constexpr std::size_t elements = static_cast<std::size_t>(size) * size;
// Until clocks and temperatures are those of work that lasts.
constexpr int warm_up_divisor = 4;

struct MatrixKind {
  const char* metric;
  cudaDataType_t type;
  std::size_t bytes;  // of an element
};
constexpr MatrixKind kinds[] = {{"gemm_gflops", CUDA_R_16BF, 2},
                                {"gemm_fp32_gflops", CUDA_R_32F, 4}};

struct MatrixOutcome {
  std::optional<double> gflops;
  std::uint64_t first = 0;  // of the product's bits
  std::uint64_t last = 0;
  std::string error;
};

void require_cublas(cublasStatus_t status, const char* call) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw GpuFailure(std::string(call) + ": " + cublasGetStatusString(status));
}

class Blas {
 public:
  explicit Blas(const GpuStream& stream) {
    require_cublas(cublasCreate(&handle_), "cublasCreate");
    require_cublas(cublasSetStream(handle_, stream.get()), "cublasSetStream");
  }
  ~Blas() { cublasDestroy(handle_); }
  Blas(const Blas&) = delete;
  cublasHandle_t get() const { return handle_; }

 private:
  cublasHandle_t handle_ = nullptr;
};

// The same on every GPU: whole numbers of -8 to 8 sixteenths, which both types hold exactly.
void fill(const GpuMemory& memory, const MatrixKind& kind, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<char> values(memory.bytes());
  for (std::size_t i = 0; i < elements; ++i) {
    const float value = static_cast<float>(static_cast<int>(random() % 17) - 8) / 16.0f;
    std::uint32_t bits = 0;
    std::memcpy(&bits, &value, sizeof bits);
    // A bf16 is the upper half of a float.
    if (kind.bytes == 2) bits >>= 16;
    std::memcpy(values.data() + i * kind.bytes, &bits, kind.bytes);
  }
  require_cuda(cudaMemcpy(memory.at(), values.data(), values.size(), cudaMemcpyHostToDevice),
               "cudaMemcpy");
}

// FNV-1a over words of eight bytes.
std::uint64_t bits_of(const GpuMemory& memory) {
  std::vector<std::uint64_t> words(memory.bytes() / sizeof(std::uint64_t));
  require_cuda(cudaMemcpy(words.data(), memory.at(), memory.bytes(), cudaMemcpyDeviceToHost),
               "cudaMemcpy");
  std::uint64_t sum = 0xcbf29ce484222325ull;
  for (const std::uint64_t word : words) sum = (sum ^ word) * 0x100000001b3ull;
  return sum;
}

// The same product again and again on the current GPU.
class MatrixLoad {
 public:
  explicit MatrixLoad(const MatrixKind& kind)
      : kind_(kind),
        a_(elements * kind.bytes),
        b_(elements * kind.bytes),
        c_(elements * kind.bytes),
        blas_(stream_) {
    fill(a_, kind, 1);
    fill(b_, kind, 2);
  }

  void multiply() const {
    const float one = 1;
    const float none = 0;
    require_cublas(cublasGemmEx(blas_.get(), CUBLAS_OP_N, CUBLAS_OP_N, size, size, size, &one,
                                a_.at(), kind_.type, size, b_.at(), kind_.type, size, &none,
                                c_.at(), kind_.type, size, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT),
                   "cublasGemmEx");
  }
  const GpuStream& stream() const { return stream_; }
  std::uint64_t bits() const { return bits_of(c_); }

 private:
  const MatrixKind& kind_;
  GpuMemory a_;
  GpuMemory b_;
  GpuMemory c_;
  GpuStream stream_;
  Blas blas_;
};

MatrixOutcome multiply_on(int gpu, const MatrixKind& kind, std::chrono::milliseconds time) {
  MatrixOutcome outcome;
  try {
    require_cuda(cudaSetDevice(gpu), "cudaSetDevice");
    const MatrixLoad load(kind);
    const auto multiply = [&](cudaStream_t) { load.multiply(); };
    const auto warm_up = time / warm_up_divisor;
    seconds_of_rounds(load.stream(), warm_up, multiply);
    outcome.first = load.bits();
    const double seconds = seconds_of_rounds(load.stream(), time - warm_up, multiply);
    outcome.last = load.bits();
    outcome.gflops = 2.0 * size * size * size / seconds / 1e9;
  } catch (const std::exception& failure) {
    outcome.error = failure.what();
  }
  return outcome;
}

// The bits that most GPUs came to. Other models of GPUs may round in another order: a node has one.
std::uint64_t usual_bits(const std::vector<MatrixOutcome>& outcomes) {
  std::map<std::uint64_t, int> votes;
  for (const MatrixOutcome& outcome : outcomes) {
    if (outcome.gflops) ++votes[outcome.first];
  }
  std::uint64_t usual = 0;
  int most = 0;
  for (const auto& [bits, count] : votes) {
    if (count > most) usual = bits;
    most = std::max(most, count);
  }
  return usual;
}

void probe_kind(const GpuRun& run, const MatrixKind& kind, std::chrono::milliseconds time) {
  std::vector<MatrixOutcome> outcomes(static_cast<std::size_t>(run.gpus));
  std::vector<std::thread> threads;
  for (int gpu = 0; gpu < run.gpus; ++gpu) {
    threads.emplace_back(
        [&, gpu] { outcomes[static_cast<std::size_t>(gpu)] = multiply_on(gpu, kind, time); });
  }
  for (std::thread& thread : threads) thread.join();
  const std::uint64_t usual = usual_bits(outcomes);
  for (int gpu = 0; gpu < run.gpus; ++gpu) {
    const MatrixOutcome& outcome = outcomes[static_cast<std::size_t>(gpu)];
    if (!outcome.gflops) {
      print_probe_error(kind.metric, gpu_name(gpu), outcome.error);
    } else if (outcome.first != outcome.last) {
      print_probe_error(kind.metric, gpu_name(gpu), "the same product has other bits each time");
    } else if (outcome.first != usual) {
      print_probe_error(kind.metric, gpu_name(gpu), "its product has other bits than most GPUs'");
    } else {
      print_probe_value(kind.metric, gpu_name(gpu), *outcome.gflops);
    }
  }
}

// Many, so that the GPU never waits for the host; few enough to end within a window.
constexpr int burn_products = 32;

void burn_on(int gpu, std::chrono::milliseconds time) {
  const char* metric = "burn_slow_windows";
  try {
    require_cuda(cudaSetDevice(gpu), "cudaSetDevice");
    const MatrixLoad load(kinds[0]);
    load.multiply();
    load.stream().wait();
    const auto begun = std::chrono::steady_clock::now();
    const auto window = burn_window(time);
    RateWindows rates(window, begun);
    for (std::uint64_t done = burn_products; std::chrono::steady_clock::now() - begun < time;
         done += burn_products) {
      for (int i = 0; i < burn_products; ++i) load.multiply();
      load.stream().wait();
      rates.add(std::chrono::steady_clock::now(), done);
    }
    const auto decline = rate_decline(rates.per_second(), window);
    if (!decline) return print_probe_error(metric, gpu_name(gpu), too_few_windows);
    print_probe_faults(metric, gpu_name(gpu), static_cast<int>(decline->windows), false,
                       decline_text(*decline, window));
  } catch (const std::exception& failure) {
    print_probe_error(metric, gpu_name(gpu), failure.what());
  }
}

}  // namespace

void probe_gpu_burn(const GpuRun& run) {
  std::vector<std::thread> threads;
  for (int gpu = 0; gpu < run.gpus; ++gpu)
    threads.emplace_back([&run, gpu] { burn_on(gpu, run.time); });
  for (std::thread& thread : threads) thread.join();
}

void probe_gpu_matrix(const GpuRun& run) {
  // The units that training uses get the longer part.
  probe_kind(run, kinds[0], run.time * 3 / 4);
  probe_kind(run, kinds[1], run.time / 4);
}

}  // namespace muster
