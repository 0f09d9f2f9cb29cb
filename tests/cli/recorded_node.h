// A healthy node of eight GPUs as a recorded root on disk, which tests spoil; and its sources, read
// by the helper program of the tests.
#pragma once

#include <cstdlib>
#include <string>

#include "cli/health/sources.h"
#include "health/read/files.h"
#include "scheduler/model/result.h"
#include "tests/health/fake_host.h"
#include "tests/health/fake_node.h"
#include "tests/health/monitor_profile.h"

namespace muster {

inline std::string health_helper() {
  const char* named = std::getenv("MUSTER_HEALTH_HELPER");
  if (named != nullptr) return named;
#ifdef MUSTER_HEALTH_HELPER
  return MUSTER_HEALTH_HELPER;
#else
  return "no helper was built";
#endif
}

class RecordedNode {
 public:
  explicit RecordedNode(const std::string& adapters = "mlx5_ib", FakeKind kind = FakeKind::h100)
      : node(kind, adapters) {
    node.set("/proc/sys/kernel/hostname", "n17\n");
    // Files, as which device nodes can be opened.
    const SourceFiles files = node.files();
    for (const auto& [path, reading] : files.all()) {
      if (path.starts_with("/dev/infiniband/")) node.set(path, "\n");
    }
  }

  // Once all is set.
  const std::string& write() {
    NodeReadRequest request;
    request.gpus = GpuReadingScope{};
    SourceFiles files = node.files();
    files.add(recorded_nvml, write_gpu_readings(*node.read(request).gpus));
    files.add(kernel_log_path, log.empty() ? "\n" : log);
    const auto written = write_files(files, root.path());
    check(static_cast<bool>(written), "the recorded node can be written");
    return root.path();
  }

  HealthSourcesOptions options(NodeReaderLimits limits = {}) const {
    return {root.path(), {health_helper()}, limits};
  }

  FakeNode node;
  FakeRoot root;
  std::string log;  // lines of /dev/kmsg
};

}  // namespace muster
