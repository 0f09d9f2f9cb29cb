// A kernel's log for tests of its watch, and what they compare.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "health/checks/kernel/kernel_watch.h"
#include "tests/catch.h"

namespace muster::kernel_watch_log {

using namespace std::chrono_literals;

inline const std::string gpu3 = "0000:3b:00.0";
inline const std::string gpu4 = "0000:5e:00.0";
inline constexpr SinceBoot start = 1h;

inline PciNames names() {
  return {{{gpu3, "gpu3"}, {gpu4, "gpu4"}, {"0000:5c:00.0", "mlx5_0"}}, {"0000:5c:00.1"}};
}

// Feeds lines with a sequence of its own, as /dev/kmsg does.
struct Log {
  KernelWatch watch;
  std::uint64_t sequence = 100;

  explicit Log(KernelWatchState saved = {}) : watch(names(), std::move(saved)) {
    watch.begin("boot-1", start);
  }
  KernelEvents says(SinceBoot at, const std::string& text) {
    KernelLine line;
    line.sequence = sequence++;
    line.since_boot = at;
    line.text = text;
    return watch.feed(line);
  }
  KernelEvents xid(SinceBoot at, int code, const std::string& rest = ", pid=1, name=python",
                   const std::string& address = "0000:3b:00") {
    return says(at, "NVRM: Xid (PCI:" + address + "): " + std::to_string(code) + rest);
  }
  KernelEvents action(SinceBoot at, const std::string& to) {
    return xid(at, 154, ", GPU recovery action changed from 0x0 (None) to " + to);
  }
};

// "gpu.xid gpu3 79 !reboot>rma"
inline std::string shown(const HealthFinding& finding) {
  const std::string status =
      finding.status == CheckStatus::fail ? "" : " " + std::string(word_of(finding.status));
  return finding.check + " " + finding.device + " " + finding.value + " " +
         text_of(finding.severity) + status;
}

inline std::vector<std::string> shown(const KernelEvents& events) {
  std::vector<std::string> all;
  for (const HealthFinding& finding : events.findings) all.push_back(shown(finding));
  return all;
}

using Shown = std::vector<std::string>;

// Failures only.
inline Shown standing(const KernelWatch& watch, SinceBoot now) {
  Shown all;
  for (const HealthFinding& finding : watch.standing({"", true}, now)) {
    if (finding.status == CheckStatus::fail) all.push_back(shown(finding));
  }
  return all;
}

}  // namespace muster::kernel_watch_log
