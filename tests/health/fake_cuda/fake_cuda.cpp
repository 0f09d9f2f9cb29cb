// CUDA and NCCL without GPUs, for the part of muster-gpu-probe that reduces over two nodes: memory
// is the host's, a stream is busy until a moment, and a sum is the number of ranks. Synthetic, not
// taken from a library. The environment says how it behaves:
//
//   FAKE_GPUS N      that this node has; none: no driver
//   FAKE_NCCL slow-open | fail-open | hang-open | block-open | hang-reduce | wrong-sum |
//             block-abort, with commas between
#include <cuda_runtime_api.h>
#include <nccl.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "health/active/gpu/gpu_probes.h"

using Clock = std::chrono::steady_clock;

namespace {

// Of each rank, as it would be over a fast network.
constexpr double bytes_per_second = 10e9;
constexpr std::size_t memory_bytes = std::size_t{64} << 20;

bool does(const char* what) {
  const char* said = std::getenv("FAKE_NCCL");
  return said != nullptr &&
         (std::string(",") + said + ",").find(std::string(",") + what + ",") != std::string::npos;
}

int gpus() {
  const char* said = std::getenv("FAKE_GPUS");
  int count = 0;
  if (said != nullptr) std::from_chars(said, said + std::strlen(said), count);
  return count;
}

}  // namespace

struct CUstream_st {
  Clock::time_point busy_until{};
};
struct CUevent_st {
  Clock::time_point at{};
};
struct ncclComm {
  int ranks = 0;
  Clock::time_point opened{};
};

extern "C" {

cudaError_t cudaGetDeviceCount(int* count) {
  *count = gpus();
  return *count > 0 ? cudaSuccess : cudaErrorInsufficientDriver;
}
cudaError_t cudaSetDevice(int device) {
  return device < gpus() ? cudaSuccess : cudaErrorInvalidDevice;
}
cudaError_t cudaMemGetInfo(std::size_t* free_bytes, std::size_t* total_bytes) {
  *free_bytes = *total_bytes = memory_bytes;
  return cudaSuccess;
}
cudaError_t cudaMalloc(void** at, std::size_t bytes) {
  *at = std::malloc(bytes);
  return *at == nullptr ? cudaErrorMemoryAllocation : cudaSuccess;
}
cudaError_t cudaFree(void* at) {
  std::free(at);
  return cudaSuccess;
}
cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind) {
  std::memcpy(to, from, bytes);
  return cudaSuccess;
}
cudaError_t cudaDeviceSynchronize() {
  return cudaSuccess;
}
cudaError_t cudaGetLastError() {
  return cudaSuccess;
}
const char* cudaGetErrorString(cudaError_t code) {
  return code == cudaErrorInsufficientDriver ? "no driver" : "an error";
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  *stream = new CUstream_st;
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  delete stream;
  return cudaSuccess;
}
cudaError_t cudaStreamQuery(cudaStream_t stream) {
  return Clock::now() < stream->busy_until ? cudaErrorNotReady : cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  std::this_thread::sleep_until(stream->busy_until);
  return cudaSuccess;
}
cudaError_t cudaEventCreate(cudaEvent_t* event) {
  *event = new CUevent_st;
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  event->at = std::max(Clock::now(), stream->busy_until);
  return cudaSuccess;
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  std::this_thread::sleep_until(event->at);
  return cudaSuccess;
}
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end) {
  *milliseconds = std::chrono::duration<float, std::milli>(end->at - begin->at).count();
  return cudaSuccess;
}

ncclResult_t ncclGetVersion(int* version) {
  *version = 22809;
  return ncclSuccess;
}
const char* ncclGetErrorString(ncclResult_t) {
  return "unhandled system error";
}
ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  std::memset(id->internal, 0x5a, sizeof id->internal);
  return ncclSuccess;
}
ncclResult_t ncclGroupStart() {
  return ncclSuccess;
}
ncclResult_t ncclGroupEnd() {
  return ncclInProgress;
}
ncclResult_t ncclCommInitRankConfig(ncclComm_t* communicator, int ranks, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  const bool is_known = id.internal[0] == 0x5a && id.internal[127] == 0x5a;
  if (!is_known || rank < 0 || rank >= ranks || config->blocking != 0) return ncclInvalidArgument;
  if (does("fail-open")) return ncclSystemError;
  if (does("block-open")) std::this_thread::sleep_for(std::chrono::hours(1));
  const auto takes = does("hang-open")   ? std::chrono::hours(1)
                     : does("slow-open") ? std::chrono::milliseconds(300)
                                         : std::chrono::milliseconds(20);
  *communicator = new ncclComm{ranks, Clock::now() + takes};
  return ncclInProgress;
}
ncclResult_t ncclCommGetAsyncError(ncclComm_t communicator, ncclResult_t* state) {
  *state = Clock::now() < communicator->opened ? ncclInProgress : ncclSuccess;
  return ncclSuccess;
}
ncclResult_t ncclCommAbort(ncclComm_t communicator) {
  if (does("block-abort")) std::this_thread::sleep_for(std::chrono::hours(1));
  delete communicator;
  return ncclSuccess;
}
ncclResult_t ncclAllReduce(const void* send, void* receive, std::size_t count, ncclDataType_t,
                           ncclRedOp_t, ncclComm_t communicator, cudaStream_t stream) {
  const auto* in = static_cast<const float*>(send);
  auto* out = static_cast<float*>(receive);
  for (const std::size_t at : {std::size_t{0}, (count - 1) / 3, count - 1}) {
    out[at] = in[at] * static_cast<float>(communicator->ranks - (does("wrong-sum") ? 1 : 0));
  }
  const double seconds = static_cast<double>(count * sizeof(float)) / bytes_per_second;
  const auto takes = does("hang-reduce") ? std::chrono::duration<double>(3600)
                                         : std::chrono::duration<double>(seconds);
  stream->busy_until = std::max(Clock::now(), stream->busy_until) +
                       std::chrono::duration_cast<Clock::duration>(takes);
  return ncclSuccess;
}

}  // extern "C"

// The probes of one node need more of CUDA than there is here.
namespace muster {

void probe_host_copies(const GpuRun&) {}
void probe_peer_copies(const GpuRun&) {}
void probe_gpu_burn(const GpuRun&) {}
void probe_gpu_memory(const GpuRun&) {}
void probe_gpu_matrix(const GpuRun&) {}
void probe_gpu_products(const GpuRun&) {}
void probe_gpu_allreduce(const GpuRun&, bool) {}

}  // namespace muster
