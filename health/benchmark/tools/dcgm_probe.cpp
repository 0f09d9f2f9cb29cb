#include "health/benchmark/tools/dcgm_probe.h"

#include "health/benchmark/tools/dcgm.h"
#include "health/benchmark/tools/sample_line.h"
#include "health/read/tool_process.h"

namespace muster {

namespace {

using Clock = std::chrono::steady_clock;

// Asked to end, dcgmi stops what it began in the host engine, which is another process.
constexpr std::chrono::seconds stopping_limit{10};

}  // namespace

void probe_dcgm(const DcgmProbeOptions& options) {
  const std::chrono::seconds limit =
      options.limit.count() > 0 ? options.limit : dcgm_level(options.level).limit;
  const ToolRun run =
      ToolProcess(dcgm_argv(options.level)).wait(Clock::now() + limit, stopping_limit);
  for (const PerformanceSample& sample : dcgm_samples(run, limit)) print_sample(sample);
}

}  // namespace muster
