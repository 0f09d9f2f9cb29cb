#include <cstring>

#include "health/active/gpu/gpu_probes.h"
#include "health/active/gpu/gpu_timing.h"
#include "health/active/gpu/near_processors.h"
#include "health/benchmark/tools/sample_line.h"

namespace muster {

namespace {

constexpr std::size_t copy_bytes = 256u << 20;

double gb_per_s(double seconds) {
  return static_cast<double>(copy_bytes) / seconds / 1e9;
}

void copy_one_way(int gpu, cudaMemcpyKind kind, std::chrono::milliseconds time) {
  const char* metric = kind == cudaMemcpyHostToDevice ? "h2d_gb_per_s" : "d2h_gb_per_s";
  try {
    require_cuda(cudaSetDevice(gpu), "cudaSetDevice");
    const PinnedMemory host(copy_bytes);
    std::memset(host.at(), 0x5a, copy_bytes);
    const GpuMemory device(copy_bytes);
    const GpuStream stream;
    void* to = kind == cudaMemcpyHostToDevice ? device.at() : host.at();
    const void* from = kind == cudaMemcpyHostToDevice ? host.at() : device.at();
    const double seconds = seconds_of_rounds(stream, time, [&](cudaStream_t on) {
      require_cuda(cudaMemcpyAsync(to, from, copy_bytes, kind, on), "cudaMemcpyAsync");
    });
    print_probe_value(metric, gpu_name(gpu), gb_per_s(seconds));
  } catch (const GpuFailure& failure) {
    print_probe_error(metric, gpu_name(gpu), failure.what());
  }
}

// So that it need not go through the host. Nothing is lost where there is no such way: the copy is
// slow then, and the number says so.
void open_way(int from, int to) {
  int is_possible = 0;
  if (cudaDeviceCanAccessPeer(&is_possible, from, to) == cudaSuccess && is_possible != 0)
    cudaDeviceEnablePeerAccess(to, 0);
  cudaGetLastError();  // it may be open already
}

void copy_to_peer(int from, int to, std::chrono::milliseconds time) {
  const std::string pair = gpu_name(from) + ":" + gpu_name(to);
  try {
    require_cuda(cudaSetDevice(to), "cudaSetDevice");
    const GpuMemory target(copy_bytes);
    open_way(to, from);
    require_cuda(cudaSetDevice(from), "cudaSetDevice");
    const GpuMemory source(copy_bytes);
    open_way(from, to);
    const GpuStream stream;
    const double seconds = seconds_of_rounds(stream, time, [&](cudaStream_t on) {
      require_cuda(cudaMemcpyPeerAsync(target.at(), to, source.at(), from, copy_bytes, on),
                   "cudaMemcpyPeerAsync");
    });
    print_probe_value("p2p_gb_per_s", pair, gb_per_s(seconds));
  } catch (const GpuFailure& failure) {
    print_probe_error("p2p_gb_per_s", pair, failure.what());
  }
}

}  // namespace

void probe_host_copies(const GpuRun& run) {
  const auto time = run.time / (run.gpus * 2);
  for (int gpu = 0; gpu < run.gpus; ++gpu) {
    stay_near_gpu(gpu);
    copy_one_way(gpu, cudaMemcpyHostToDevice, time);
    copy_one_way(gpu, cudaMemcpyDeviceToHost, time);
  }
}

void probe_peer_copies(const GpuRun& run) {
  if (run.gpus < 2) return print_probe_error("p2p_gb_per_s", "", "there is one GPU only");
  const auto time = run.time / (run.gpus * (run.gpus - 1));
  for (int from = 0; from < run.gpus; ++from) {
    for (int to = 0; to < run.gpus; ++to) {
      if (from != to) copy_to_peer(from, to, time);
    }
  }
}

}  // namespace muster
