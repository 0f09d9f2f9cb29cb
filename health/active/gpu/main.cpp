// muster-gpu-probe WORD [--seconds N]: one of the probes of GPUs (health/active/probe.h).
#include <cuda_runtime_api.h>

#include <cstdio>
#include <string>
#include <vector>

#include "health/active/gpu/gpu_probes.h"
#include "health/active/probe_line.h"
#include "health/active/probe_words.h"

namespace muster {
namespace {

constexpr int wrong_use = 2;

struct GpuVerb {
  const char* name;
  void (*probe)(const GpuRun& run);
  int seconds;
  std::vector<const char*> metrics;
};

const std::vector<GpuVerb>& verbs() {
  static const std::vector<GpuVerb> all{
      {"gpu-host", probe_host_copies, 10, {"h2d_gb_per_s", "d2h_gb_per_s"}},
      {"gpu-memory",
       probe_gpu_memory,
       10,
       {"hbm_mb_per_s", "hbm_read_mb_per_s", "hbm_write_mb_per_s"}},
      {"gpu-peer", probe_peer_copies, 20, {"p2p_gb_per_s"}},
      {"gpu-matrix", probe_gpu_matrix, 80, {"gemm_gflops", "gemm_fp32_gflops"}},
      {"gpu-sdc", probe_gpu_products, 60, {"sdc_wrong_products"}},
      {"gpu-nccl",
       [](const GpuRun& run) { probe_gpu_allreduce(run, false); },
       20,
       {"allreduce2_gb_per_s", "allreduce4_gb_per_s", "allreduce8_gb_per_s"}},
      {"gpu-nccl-loop",
       [](const GpuRun& run) { probe_gpu_allreduce(run, true); },
       20,
       {"ib_loop_allreduce_gb_per_s"}}};
  return all;
}

int measure(const GpuVerb& verb, std::chrono::seconds time) {
  GpuRun run;
  run.time = time;
  const cudaError_t code = cudaGetDeviceCount(&run.gpus);
  if (code != cudaSuccess || run.gpus == 0) {
    const std::string why = std::string("cudaGetDeviceCount: ") +
                            (code == cudaSuccess ? "no device" : cudaGetErrorString(code));
    // A driver that is missing or too old is no fault of the GPUs.
    const auto print = code == cudaErrorInsufficientDriver ? print_probe_absent : print_probe_error;
    for (const char* metric : verb.metrics) print(metric, "", why);
    return 0;
  }
  verb.probe(run);
  return 0;
}

int run(const std::vector<std::string>& words) {
  const auto read = ProbeWords::read(words, {"--seconds"});
  const auto seconds = read ? read->number("--seconds", 0, 1, 3600) : std::nullopt;
  for (const GpuVerb& verb : verbs()) {
    if (!seconds || read->names() != std::vector<std::string>{verb.name}) continue;
    return measure(verb, std::chrono::seconds(*seconds > 0 ? *seconds : verb.seconds));
  }
  std::fprintf(stderr, "use: muster-gpu-probe WORD [--seconds N], WORD one of:");
  for (const GpuVerb& verb : verbs()) std::fprintf(stderr, " %s", verb.name);
  std::fprintf(stderr, "\n");
  return wrong_use;
}

}  // namespace
}  // namespace muster

int main(int argc, char** argv) {
  return muster::run({argv + 1, argv + argc});
}
