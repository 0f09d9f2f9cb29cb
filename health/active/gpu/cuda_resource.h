// What a GPU program holds of the driver, given back at its end; a call that fails throws, with the
// driver's words, and ends the measurement of that device alone.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <stdexcept>
#include <string>
#include <utility>

namespace muster {

struct GpuFailure : std::runtime_error {
  using std::runtime_error::runtime_error;
};

inline void require_cuda(cudaError_t code, const char* call) {
  if (code == cudaSuccess) return;
  cudaGetLastError();  // the next call shall not be blamed for it
  throw GpuFailure(std::string(call) + ": " + cudaGetErrorString(code));
}

// Of the current device.
class GpuMemory {
 public:
  explicit GpuMemory(std::size_t bytes) : bytes_(bytes) {
    require_cuda(cudaMalloc(&at_, bytes), "cudaMalloc");
  }
  ~GpuMemory() { cudaFree(at_); }
  GpuMemory(const GpuMemory&) = delete;
  void* at() const { return at_; }
  std::size_t bytes() const { return bytes_; }

 private:
  void* at_ = nullptr;
  std::size_t bytes_;
};

// Memory of the host that the GPU reads and writes itself.
class PinnedMemory {
 public:
  explicit PinnedMemory(std::size_t bytes) {
    require_cuda(cudaMallocHost(&at_, bytes), "cudaMallocHost");
  }
  ~PinnedMemory() { cudaFreeHost(at_); }
  PinnedMemory(const PinnedMemory&) = delete;
  void* at() const { return at_; }

 private:
  void* at_ = nullptr;
};

class GpuStream {
 public:
  GpuStream() {
    require_cuda(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreate");
  }
  ~GpuStream() { cudaStreamDestroy(stream_); }
  GpuStream(const GpuStream&) = delete;
  cudaStream_t get() const { return stream_; }
  void wait() const { require_cuda(cudaStreamSynchronize(stream_), "cudaStreamSynchronize"); }
  // All that it was given is over.
  bool is_idle() const {
    const cudaError_t code = cudaStreamQuery(stream_);
    if (code != cudaErrorNotReady) require_cuda(code, "cudaStreamQuery");
    return code == cudaSuccess;
  }

 private:
  cudaStream_t stream_ = nullptr;
};

class GpuMark {
 public:
  GpuMark() { require_cuda(cudaEventCreate(&event_), "cudaEventCreate"); }
  ~GpuMark() { cudaEventDestroy(event_); }
  GpuMark(const GpuMark&) = delete;
  void record(const GpuStream& stream) const {
    require_cuda(cudaEventRecord(event_, stream.get()), "cudaEventRecord");
  }
  double seconds_since(const GpuMark& begin) const {
    float milliseconds = 0;
    require_cuda(cudaEventSynchronize(event_), "cudaEventSynchronize");
    require_cuda(cudaEventElapsedTime(&milliseconds, begin.event_, event_), "cudaEventElapsedTime");
    return milliseconds / 1e3;
  }

 private:
  cudaEvent_t event_ = nullptr;
};

inline std::string gpu_name(int gpu) {
  return "gpu" + std::to_string(gpu);
}

}  // namespace muster
