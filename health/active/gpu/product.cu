#include <cublas_v2.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "health/active/gpu/cuda_resource.h"
#include "health/active/gpu/gpu_probes.h"
#include "health/active/product_sum.h"
#include "health/benchmark/tools/sample_line.h"

namespace muster {

namespace {

constexpr const char* metric = "sdc_wrong_products";
constexpr std::size_t elements = static_cast<std::size_t>(product_size) * product_size;
// Of each kind in one round; a round has one line. The units for bf16 are the faster ones.
constexpr int bf16_products = 64;
constexpr int fp32_products = 4;
constexpr int products_most = bf16_products;
// So that lines stay within what is read of a probe.
constexpr int rounds_least = 2;
constexpr int rounds_most = 1000;

constexpr int threads = 256;
constexpr int blocks = 2048;

void require_cublas(cublasStatus_t status, const char* call) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw GpuFailure(std::string(call) + ": " + cublasGetStatusString(status));
}

void require_launch(const char* kernel) {
  require_cuda(cudaGetLastError(), kernel);
}

// bf16 is the upper half of a float, and holds these numbers.
__global__ void fill_factor(int which, float* as_fp32, std::uint16_t* as_bf16) {
  const std::size_t step = static_cast<std::size_t>(gridDim.x) * blockDim.x;
  for (std::size_t i = blockIdx.x * static_cast<std::size_t>(blockDim.x) + threadIdx.x;
       i < elements; i += step) {
    const float value = static_cast<float>(factor_element(which, i)) * factor_unit;
    as_fp32[i] = value;
    as_bf16[i] = static_cast<std::uint16_t>(__float_as_uint(value) >> 16);
  }
}

// Of whole numbers modulo 2^64: the order of additions does not matter.
__global__ void add_product_sum(const float* product, unsigned long long* sum) {
  const std::size_t step = static_cast<std::size_t>(gridDim.x) * blockDim.x;
  unsigned long long own = 0;
  for (std::size_t i = blockIdx.x * static_cast<std::size_t>(blockDim.x) + threadIdx.x;
       i < elements; i += step) {
    own +=
        row_weight(i % product_size) * column_weight(i / product_size) * product_term(product[i]);
  }
  atomicAdd(sum, own);
}

class Product {
 public:
  Product() {
    require_cublas(cublasCreate(&handle_), "cublasCreate");
    require_cublas(cublasSetStream(handle_, stream_.get()), "cublasSetStream");
    for (const int which : {0, 1}) {
      fill_factor<<<blocks, threads, 0, stream_.get()>>>(
          which, static_cast<float*>(fp32_[which].at()),
          static_cast<std::uint16_t*>(bf16_[which].at()));
      require_launch("fill_factor");
    }
    stream_.wait();
  }
  ~Product() { cublasDestroy(handle_); }
  Product(const Product&) = delete;

  // One kind after the other. The sum of the first product that is not as `usual`, or that.
  unsigned long long round(const unsigned long long* usual) {
    unsigned long long first = 0;
    for (const bool is_bf16 : {true, false}) {
      const int count = is_bf16 ? bf16_products : fp32_products;
      for (const unsigned long long sum : sums_of(is_bf16, count)) {
        if (usual == nullptr) {
          first = sum;
          usual = &first;
        }
        if (sum != *usual) return sum;
      }
    }
    return *usual;
  }

 private:
  std::vector<unsigned long long> sums_of(bool is_bf16, int count) {
    std::vector<unsigned long long> sums(static_cast<std::size_t>(count));
    const std::size_t bytes = sums.size() * sizeof sums.front();
    require_cuda(cudaMemsetAsync(sums_.at(), 0, bytes, stream_.get()), "cudaMemsetAsync");
    for (int i = 0; i < count; ++i) {
      // What an earlier one left must not pass for a product.
      require_cuda(cudaMemsetAsync(product_.at(), 0xff, product_.bytes(), stream_.get()),
                   "cudaMemsetAsync");
      multiply(is_bf16);
      add_product_sum<<<blocks, threads, 0, stream_.get()>>>(
          static_cast<const float*>(product_.at()),
          static_cast<unsigned long long*>(sums_.at()) + i);
      require_launch("add_product_sum");
    }
    require_cuda(
        cudaMemcpyAsync(sums.data(), sums_.at(), bytes, cudaMemcpyDeviceToHost, stream_.get()),
        "cudaMemcpyAsync");
    stream_.wait();
    return sums;
  }

  void multiply(bool is_bf16) {
    const float one = 1;
    const float none = 0;
    const cudaDataType_t type = is_bf16 ? CUDA_R_16BF : CUDA_R_32F;
    const void* a = is_bf16 ? bf16_[0].at() : fp32_[0].at();
    const void* b = is_bf16 ? bf16_[1].at() : fp32_[1].at();
    require_cublas(
        cublasGemmEx(handle_, CUBLAS_OP_N, CUBLAS_OP_N, product_size, product_size, product_size,
                     &one, a, type, product_size, b, type, product_size, &none, product_.at(),
                     CUDA_R_32F, product_size, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT),
        "cublasGemmEx");
  }

  GpuStream stream_;
  GpuMemory fp32_[2] = {GpuMemory(elements * 4), GpuMemory(elements * 4)};
  GpuMemory bf16_[2] = {GpuMemory(elements * 2), GpuMemory(elements * 2)};
  GpuMemory product_{elements * 4};
  GpuMemory sums_{products_most * sizeof(unsigned long long)};
  cublasHandle_t handle_ = nullptr;
};

void multiply_on(int gpu, std::chrono::milliseconds time) {
  try {
    require_cuda(cudaSetDevice(gpu), "cudaSetDevice");
    Product product;
    const auto until = std::chrono::steady_clock::now() + time;
    unsigned long long usual = 0;
    for (int round = 0; round < rounds_most; ++round) {
      if (round >= rounds_least && std::chrono::steady_clock::now() >= until) return;
      const unsigned long long bits = product.round(round == 0 ? nullptr : &usual);
      if (round == 0) usual = bits;
      print_probe_bits(metric, gpu_name(gpu), static_cast<unsigned>(round), bits);
    }
  } catch (const std::exception& failure) {
    print_probe_error(metric, gpu_name(gpu), failure.what());
  }
}

}  // namespace

void probe_gpu_products(const GpuRun& run) {
  std::vector<std::thread> threads;
  for (int gpu = 0; gpu < run.gpus; ++gpu)
    threads.emplace_back([&run, gpu] { multiply_on(gpu, run.time); });
  print_probe_bits(metric, "", 0, right_product_sum(product_size));
  for (std::thread& thread : threads) thread.join();
}

}  // namespace muster
