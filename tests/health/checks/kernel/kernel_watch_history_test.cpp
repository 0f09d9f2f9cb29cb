// What was logged before anybody watched: of this boot, and of the one before.
#include "health/checks/kernel/kernel_watch.h"
#include "tests/catch.h"
#include "tests/health/kernel_watch_log.h"

using namespace muster;
using namespace muster::kernel_watch_log;
using namespace std::chrono_literals;

TEST_CASE("a first start on a node that is long up acts on what nothing but a repair has ended") {
  for (const int code : {48, 79, 95}) {
    INFO(code);
    Log log;
    const KernelEvents events = log.xid(start - 20min, code);
    REQUIRE(events.findings.size() == 1);
    CHECK(events.findings.front().severity.stops_job);
    CHECK(events.findings.front().evidence.back() ==
          "logged 20 min before anybody watched, and no reset since");
    CHECK(standing(log.watch, start).size() == 1);
  }
  Log log;
  CHECK(shown(log.says(start - 50min, "BUG: unable to handle page fault")) ==
        Shown{"host.oops  logged reboot"});
  CHECK(log.says(start - 50min, "mlx5_core 0000:5c:00.0: Link down").links.size() == 1);
  CHECK(log.says(start - 50min, "nvidia-nvswitch0: SXid (PCI:0000:c1:00.0): 10003, Fatal, x")
            .findings.size() == 1);
  CHECK(log.action(start - 40min, "0x2 (Node Reboot Required)").findings.size() == 1);
}

TEST_CASE("of what was logged long before, nothing counts that only warns or was over by itself") {
  Log log;
  CHECK(log.xid(start - 11min, 31).findings.empty());
  CHECK(log.says(start - 11min, "INFO: task x:1 blocked for more than 120 seconds.")
            .findings.empty());
  CHECK(log.says(start - 11min, "nfs: server a not responding").findings.empty());
  CHECK(log.says(start - 11min, "nvidia-nvswitch0: SXid (PCI:0000:c1:00.0): 12021, Non-fatal, x")
            .findings.empty());
  CHECK(log.says(start - 9min, "nfs: server a not responding").findings.size() == 1);
  CHECK(standing(log.watch, start).empty());
}

TEST_CASE("a load of the driver ends what it told, with or without a GPU, long ago or now") {
  Log log;
  log.xid(start - 30min, 79);
  log.says(start - 30min,
           "NVRM: knvlinkUpdatePostRxDetectLinkMask_IMPL: Failed to update Rx "
           "Detect Link mask!");
  CHECK(standing(log.watch, start).size() == 2);
  log.says(start - 20min, "NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  570.133.20");
  CHECK(standing(log.watch, start).empty());
  Log nameless;
  nameless.says(start, "NVRM: Assertion failed: Reset required [NV_ERR_RESET_REQUIRED] (0x62)");
  CHECK(standing(nameless.watch, start) == Shown{"gpu.recovery_action  logged !reset"});
  nameless.says(start + 1s, "NVRM: loading NVIDIA UNIX Kernel Module  570.133.20");
  CHECK(standing(nameless.watch, start + 1s).empty());
}

// drivers/acpi/apei/bert.c bert_print_all, with the records of Punit Agrawal's report
TEST_CASE("records of the boot before call for nothing") {
  Log log;
  log.says(start, "BERT: Error records from previous boot:");
  CHECK(log.says(start, "[Hardware Error]: event severity: fatal").findings.empty());
  CHECK(log.says(start, "[Hardware Error]:  Error 0, type: fatal").findings.empty());
  CHECK(log.says(start + 100ms, "[Hardware Error]: event severity: fatal").findings.empty());
  CHECK(standing(log.watch, start).empty());
  // One of this boot beside them, and one later.
  CHECK(shown(log.says(start, "{1}[Hardware Error]: event severity: fatal")) ==
        Shown{"host.edac  logged !reboot>rma"});
  Log later;
  later.says(start, "BERT: Error records from previous boot:");
  CHECK(later.says(start + 2s, "[Hardware Error]: Uncorrected, software restartable error.")
            .findings.size() == 1);
}

TEST_CASE("an error on the bus is of the device that a port tells of") {
  Log log;
  const KernelEvents events = log.says(
      start, "pcieport 0000:3a:01.0: AER: Uncorrected (Fatal) error received: 0000:3b:00.0");
  CHECK(shown(events) == Shown{"host.pcie gpu3 logged drain>rma"});
  CHECK(shown(log.says(start,
                       "nvme 0000:17:00.0: PCIe Bus Error: severity=Uncorrected (Fatal), "
                       "type=Transaction Layer")) ==
        Shown{"host.pcie 0000:17:00.0 logged drain>rma"});
}
