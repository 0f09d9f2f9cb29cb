// muster-gpu-probe WORD… : one of the probes of GPUs (health/benchmark/command.h), or
// muster-gpu-probe nccl-version: prints NCCL's, as 22809, and asks no GPU; nothing without NCCL.
#include <cuda_runtime_api.h>

#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include "health/active/burn_rate.h"
#include "health/active/gpu/gpu_probes.h"
#include "health/active/probe_door.h"
#include "health/benchmark/command.h"
#include "health/benchmark/tools/sample_line.h"

namespace muster {
namespace {

constexpr int wrong_use = 2;
constexpr int seconds_max = burn_minutes_max * 60;

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
      {"gpu-burn", probe_gpu_burn, 1200, {"burn_slow_windows"}},
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

// Nothing where there are none, which is told.
std::optional<GpuRun> run_on_gpus(const std::vector<const char*>& metrics,
                                  std::chrono::seconds time) {
  GpuRun run;
  run.time = time;
  const cudaError_t code = cudaGetDeviceCount(&run.gpus);
  if (code == cudaSuccess && run.gpus > 0) return run;
  const std::string why = std::string("cudaGetDeviceCount: ") +
                          (code == cudaSuccess ? "no device" : cudaGetErrorString(code));
  // A driver that is missing or too old is no fault of the GPUs.
  const auto print = code == cudaErrorInsufficientDriver ? print_probe_absent : print_probe_error;
  for (const char* metric : metrics) print(metric, "", why);
  return std::nullopt;
}

int measure(const GpuVerb& verb, std::chrono::seconds time) {
  if (const auto run = run_on_gpus(verb.metrics, time)) verb.probe(*run);
  return 0;
}

int complain(const char* sentence) {
  std::fprintf(stderr, "muster-gpu-probe: %s\n", sentence);
  return wrong_use;
}

int measure_pair(const ProbeWords& words, bool serves) {
  const auto seconds = words.number("--seconds", serves ? 60 : 20, 1, 120);
  const auto port = words.number("--port", 0, 1, 65'535);
  const auto limit = words.number("--limit", 60, 1, 3600);
  const std::size_t names = serves ? 1 : 2;
  if (!seconds || !limit || !port || *port == 0 || words.names().size() != names ||
      words.names().back().empty()) {
    return complain(
        serves ? "use: gpu-nccl-pair-serve --port N [--seconds N] [--limit N] [--address A]"
               : "use: gpu-nccl-pair-connect HOST --port N [--seconds N] [--limit N]");
  }
  const char* token = std::getenv(probe_token_variable);
  if (token == nullptr || !is_probe_token(token))
    return complain("it takes a token of 8 to 128 characters in MUSTER_PROBE_TOKEN");
  GpuPartner partner;
  partner.host = serves ? "" : words.names()[1];
  partner.address = serves ? words.text("--address") : "";
  partner.port = static_cast<std::uint16_t>(*port);
  partner.token = token;
  partner.limit = std::chrono::seconds(*limit);
  const auto run = run_on_gpus({"two_node_allreduce_gb_per_s"}, std::chrono::seconds(*seconds));
  if (run) probe_pair_allreduce(*run, partner);
  return 0;
}

int tell_nccl_version() {
  if (nccl_version() > 0) std::printf("%d\n", nccl_version());
  return 0;
}

int run(const std::vector<std::string>& words) {
  const std::string name = words.empty() ? "" : words.front();
  if (name == "nccl-version" && words.size() == 1) return tell_nccl_version();
  if (name == "gpu-nccl-pair-serve" || name == "gpu-nccl-pair-connect") {
    const auto read = ProbeWords::read(words, {"--seconds", "--limit", "--port", "--address"});
    return read ? measure_pair(*read, name == "gpu-nccl-pair-serve")
                : complain(read.error().message.c_str());
  }
  const auto read = ProbeWords::read(words, {"--seconds"});
  const auto seconds = read ? read->number("--seconds", 0, 1, seconds_max) : std::nullopt;
  for (const GpuVerb& verb : verbs()) {
    if (!seconds || read->names() != std::vector<std::string>{verb.name}) continue;
    return measure(verb, std::chrono::seconds(*seconds > 0 ? *seconds : verb.seconds));
  }
  std::fprintf(stderr, "use: muster-gpu-probe WORD [--seconds N], WORD one of:");
  for (const GpuVerb& verb : verbs()) std::fprintf(stderr, " %s", verb.name);
  std::fprintf(stderr, "; or gpu-nccl-pair-serve, gpu-nccl-pair-connect, nccl-version\n");
  return wrong_use;
}

}  // namespace
}  // namespace muster

int main(int argc, char** argv) {
  return muster::run({argv + 1, argv + argc});
}
