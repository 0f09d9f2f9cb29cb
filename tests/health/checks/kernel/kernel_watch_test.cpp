#include "health/checks/kernel/kernel_watch.h"

#include <algorithm>
#include <random>

#include "tests/catch.h"
#include "tests/health/kernel_watch_log.h"

using namespace muster;
using namespace muster::kernel_watch_log;
using namespace std::chrono_literals;

TEST_CASE("an Xid is a finding of its GPU with its line") {
  Log log;
  const KernelEvents events = log.xid(start, 79, ", pid=7194, GPU has fallen off the bus.");
  CHECK(shown(events) == Shown{"gpu.xid gpu3 79 !reboot>rma"});
  CHECK(events.findings[0].fault_class == FaultClass::node);
  CHECK(events.findings[0].source == "kmsg");
  CHECK(events.findings[0].evidence ==
        Shown{"NVRM: Xid (PCI:0000:3b:00): 79, pid=7194, GPU has fallen off the bus."});
  CHECK(shown(log.xid(start, 48, "", "0000:99:00")) == Shown{"gpu.xid 0000:99:00.0 48 !reset>rma"});
}

TEST_CASE("an Xid of a program is the user's, an ignored one is not told") {
  Log log;
  const KernelEvents app = log.xid(start, 31);
  CHECK(shown(app) == Shown{"gpu.xid gpu3 31 warn>drain"});
  CHECK(app.findings[0].fault_class == FaultClass::user);
  CHECK(log.xid(start, 141).findings.empty());
}

TEST_CASE("the same Xid of a GPU is told once a minute, with what was left out") {
  Log log;
  CHECK(log.xid(start, 48).findings.size() == 1);
  for (int i = 1; i < 60; ++i) CHECK(log.xid(start + i * 1s, 48).findings.empty());
  CHECK(log.xid(start + 30s, 48, "", "0000:5e:00").findings.size() == 1);
  const KernelEvents later = log.xid(start + 60s, 48);
  REQUIRE(later.findings.size() == 1);
  CHECK(later.findings[0].evidence.at(1) == "and 59 more like it before");
}

TEST_CASE("a worse one of the same code is told at once") {
  Log log;
  const std::string nonfatal = ", TLW_RX Nonfatal XC0 i0 Link 02 (0x1 0x0)";
  const std::string fatal = ", TLW_RX Fatal XC0 i0 Link 03 (0x1 0x0)";
  CHECK(shown(log.xid(start, 146, nonfatal)) == Shown{"gpu.xid gpu3 146 warn"});
  CHECK(shown(log.xid(start + 1s, 146, fatal)) == Shown{"gpu.xid gpu3 146 !reset"});
  CHECK(log.xid(start + 2s, 146, nonfatal).findings.empty());
  CHECK(shown(log.xid(start + 3s, 147, ", no details")) == Shown{"gpu.xid gpu3 147 drain"});
}

TEST_CASE("an event of NVML and its line are one, whichever comes first") {
  Log log;
  log.says(start, "something");
  SECTION("the line first") {
    CHECK(log.xid(start, 48).findings.size() == 1);
    CHECK(log.watch.on_xid_event("00000000:3B:00.0", 48, start + 10ms).findings.empty());
    CHECK(log.watch.tick(start + 5s).findings.empty());
  }
  SECTION("the event first") {
    CHECK(log.watch.on_xid_event("00000000:3B:00.0", 48, start).findings.empty());
    const KernelEvents line = log.xid(start + 10ms, 48);
    REQUIRE(line.findings.size() == 1);
    CHECK(line.findings[0].source == "kmsg");
    CHECK(log.watch.tick(start + 5s).findings.empty());
  }
  SECTION("the event alone is told after a second") {
    log.watch.on_xid_event(gpu3, 48, start);
    CHECK(log.watch.tick(start + 900ms).findings.empty());
    const KernelEvents told = log.watch.tick(start + 1s);
    CHECK(shown(told) == Shown{"gpu.xid gpu3 48 !reset>rma"});
    CHECK(told.findings[0].source == "nvmlEventSetWait");
    CHECK(log.xid(start + 2s, 48).findings.empty());
  }
  SECTION("an event with a line that makes it harmless is not told before it") {
    log.watch.on_xid_event(gpu3, 149, start);
    CHECK(shown(log.xid(start + 10ms, 149, ", NETIR_BER_EVENT Nonfatal XC0 i0 Link 01 (0x1)")) ==
          Shown{"gpu.xid gpu3 149 warn"});
    CHECK(log.watch.tick(start + 5s).findings.empty());
  }
}

TEST_CASE("without a log, NVML's events are told at once") {
  Log log;
  CHECK(shown(log.watch.on_xid_event(gpu3, 95, start)) == Shown{"gpu.xid gpu3 95 !reset>rma"});
  CHECK(log.watch.on_xid_event(gpu3, 95, start + 1s).findings.empty());
  CHECK(shown(log.watch.on_xid_event(gpu4, 999, start)) == Shown{"gpu.xid gpu4 999 warn"});
  CHECK(shown(log.watch.on_xid_event(gpu3, 154, start)) ==
        Shown{"gpu.recovery_action gpu3  drain unknown"});
}

TEST_CASE("a flood of events does not wait, and does not pile up") {
  Log log;
  log.says(start, "something");
  std::size_t told = 0;
  for (int i = 0; i < 1000; ++i) {
    told += log.watch.on_xid_event(gpu3, 1000 + i, start).findings.size();
    CHECK(log.watch.state().held.size() <= 64);
  }
  CHECK(told > 900);
}

TEST_CASE("what follows from our own kill is not told") {
  Log log;
  const std::vector<std::string> killed{"00000000:3B:00.0"};
  log.watch.on_kill(killed, start);
  for (const int xid : {13, 31, 43, 45}) CHECK(log.xid(start + 59s, xid).findings.empty());
  CHECK(log.xid(start + 59s, 48).findings.size() == 1);
  CHECK(log.xid(start + 59s, 31, "", "0000:5e:00").findings.size() == 1);
  CHECK(log.xid(start + 61s, 31).findings.size() == 1);
}

TEST_CASE("a kill of all ranks is one of every GPU") {
  Log log;
  log.watch.on_kill({}, start);
  CHECK(log.xid(start + 1s, 43).findings.empty());
  CHECK(log.xid(start + 1s, 45, "", "0000:5e:00").findings.empty());
}

TEST_CASE("a removal of channels is a warning only when it is alone") {
  Log log;
  CHECK(shown(log.xid(start, 45)) == Shown{"gpu.xid gpu3 45 warn"});
  log.xid(start + 2min, 145, ", RLW_REMAP Nonfatal XC0 i0 Link 01 (0x1 0x1)");
  CHECK(log.xid(start + 2min + 1s, 45).findings.empty());
  const KernelEvents named = log.xid(start, 45, ", caused by previous Xid 149", "0000:5e:00");
  CHECK(named.findings.empty());
}

TEST_CASE("Xids older than the last reset of their GPU are history") {
  Log log;
  log.watch.on_reset("00000000:3B:00.0", start + 10s);
  CHECK(log.xid(start + 9s, 79).findings.empty());
  CHECK(
      log.says(start + 9s, "NVRM: GPU 0000:3b:00.0: GPU has fallen off the bus.").findings.empty());
  CHECK(log.xid(start + 9s, 79, "", "0000:5e:00").findings.size() == 1);
  CHECK(log.xid(start + 11s, 79).findings.size() == 1);
}

TEST_CASE("a GPU that has no name passes by its address once it was reset") {
  Log log;
  const auto passes = [&] {
    return std::ranges::any_of(log.watch.standing({"", true}, start), [](const auto& one) {
      return one.check == "gpu.xid" && one.device == "0000:99:00.0" &&
             one.status == CheckStatus::pass;
    });
  };
  log.xid(start, 46, "", "0000:99:00");
  CHECK_FALSE(passes());
  log.watch.on_reset("0000:99:00.0", start + 1s);
  CHECK(passes());
}

TEST_CASE("what was read before a restart is not told again") {
  Log log;
  log.xid(start, 79);
  log.says(start + 1s, "INFO: task x:1 blocked for more than 120 seconds.");

  Log restarted(log.watch.state());
  restarted.sequence = 100;
  CHECK(restarted.watch.state() == log.watch.state());
  CHECK(restarted.xid(start, 79).findings.empty());
  CHECK(restarted.says(start + 1s, "INFO: task x:1 blocked for more than 120 seconds.")
            .findings.empty());
  // What came while nobody read is new, however late.
  CHECK(shown(restarted.xid(start + 2s, 48)) == Shown{"gpu.xid gpu3 48 !reset>rma"});
}

TEST_CASE("another boot begins anew") {
  Log log;
  log.xid(start, 79);
  KernelWatch watch(names(), log.watch.state());
  watch.begin("boot-2", 20s);
  CHECK_FALSE(watch.state().sequence);
  CHECK(standing(watch, 20s).empty());
  KernelLine line;
  line.sequence = 1;
  line.since_boot = 5s;
  line.text = "NVRM: Xid (PCI:0000:3b:00): 79, x";
  CHECK(watch.feed(line).findings.size() == 1);
}

TEST_CASE("lines that a program wrote are not the kernel's") {
  Log log;
  KernelLine line;
  line.sequence = 1;
  line.is_from_kernel = false;
  line.text = "NVRM: Xid (PCI:0000:3b:00): 79, x";
  CHECK(log.watch.feed(line).findings.empty());
  CHECK(log.watch.state().sequence == 1u);
}

TEST_CASE("the driver's action overrides the table") {
  Log log;
  CHECK(shown(log.xid(start, 79)) == Shown{"gpu.xid gpu3 79 !reboot>rma"});
  // What was told is told again as the driver has it.
  const KernelEvents stated = log.action(start + 10ms, "0x1 (GPU Reset Required)");
  CHECK(shown(stated) ==
        Shown{"gpu.recovery_action gpu3 GPU reset !reset", "gpu.xid gpu3 79 !reset"});
  CHECK(stated.findings[1].evidence.size() == 2);
  CHECK(standing(log.watch, start + 1s) == Shown{"gpu.xid gpu3 79 !reset"});
  // And what comes after it.
  CHECK(shown(log.xid(start + 1s, 95)) == Shown{"gpu.xid gpu3 95 !reset"});
  CHECK(shown(log.xid(start + 2min, 95)) == Shown{"gpu.xid gpu3 95 !reset>rma"});
}

TEST_CASE("each change of the driver's action is told, a repetition is not") {
  Log log;
  CHECK(log.action(start, "0x1 (GPU Reset Required)").findings.size() == 1);
  CHECK(log.action(start + 1s, "0x1 (GPU Reset Required)").findings.empty());
  CHECK(shown(log.action(start + 2s, "0x2 (Node Reboot Required)")) ==
        Shown{"gpu.recovery_action gpu3 node reboot !reboot"});
  CHECK(log.action(start + 3s, "0x0 (None)").findings.at(0).status == CheckStatus::pass);
  CHECK(log.action(start + 4s, "0x1 (GPU Reset Required)").findings.size() == 1);
  CHECK(shown(log.xid(start + 5s, 154, ", other words")) == Shown{});
}

TEST_CASE("the action's line is told though its event came first") {
  Log log;
  log.says(start, "something");
  log.watch.on_xid_event(gpu3, 154, start);
  CHECK(log.watch.tick(start + 2s).findings.at(0).status == CheckStatus::unknown);
  CHECK(shown(log.action(start + 3s, "0x2 (Node Reboot Required)")) ==
        Shown{"gpu.recovery_action gpu3 node reboot !reboot"});
}

TEST_CASE("an NVLink that fails twice leads to a replacement") {
  const std::string link6 = ", pid=1, NVLink: fatal error detected on link 6(0x0, 0x0, 0x1)";
  const std::string link7 = ", pid=1, NVLink: fatal error detected on link 7(0x0, 0x0, 0x1)";
  Log log;
  CHECK(shown(log.xid(start, 74, link6)) == Shown{"gpu.xid gpu3 74 !reset"});
  CHECK(log.xid(start + 1s, 74, link6).findings.empty());
  CHECK(shown(log.xid(start + 2min, 74, link7)) == Shown{"gpu.xid gpu3 74 !reset"});
  // The next boot remembers.
  KernelWatch watch(names(), log.watch.state());
  watch.begin("boot-2", 0s);
  KernelLine line;
  line.since_boot = 1min;
  line.text = "NVRM: Xid (PCI:0000:3b:00): 74" + link6;
  CHECK(shown(watch.feed(line)) == Shown{"gpu.xid gpu3 74 !rma"});
  watch.on_cleared("gpu.xid", "gpu3");
  line.since_boot = 10min;
  CHECK(shown(watch.feed(line)) == Shown{"gpu.xid gpu3 74 !reset"});
}

TEST_CASE("a GPU whose memory was remapped is reset when its job has ended") {
  Log log;
  CHECK(shown(log.xid(start, 63)) == Shown{"gpu.xid gpu3 63 warn"});
  CHECK(log.watch.resets_at_epilog().contains(gpu3));
  log.watch.on_reset(gpu3, start + 1min);
  CHECK(log.watch.resets_at_epilog().empty());
  CHECK(log.watch.on_jobs_over(start + 2min).findings.empty());
}

TEST_CASE("at the end of its job such a GPU needs its reset, until it has it") {
  Log log;
  log.xid(start, 31);
  log.xid(start + 1s, 94);
  log.xid(start + 2s, 63);
  CHECK(shown(log.watch.on_jobs_over(start + 1min)) == Shown{"gpu.xid gpu3 63 reset"});
  CHECK(log.watch.on_jobs_over(start + 2min).findings.empty());  // told
  const auto is_reset = [](const HealthFinding& one) {
    return one.check == "gpu.xid" && one.severity.remedy == Remedy::reset;
  };
  CHECK(std::ranges::count_if(log.watch.standing({}, start + 1h), is_reset) == 1);
  log.watch.on_reset(gpu3, start + 2h);
  CHECK(std::ranges::count_if(log.watch.standing({}, start + 3h), is_reset) == 0);
}

TEST_CASE("a GPU that fell off the bus is named, though by another line") {
  Log log;
  SECTION("in the line") {
    CHECK(shown(log.says(start, "NVRM: GPU 0000:3b:00.0: GPU has fallen off the bus.")) ==
          Shown{"gpu.fell_off gpu3 logged !reboot>rma"});
  }
  SECTION("in the record before") {
    log.says(start, "NVRM: The NVIDIA GPU 0000:5e:00.0");
    log.says(start, "NVRM: (PCI ID: 10de:2330) installed in this system has");
    CHECK(shown(log.says(start, "NVRM: fallen off the bus and is not responding to commands.")) ==
          Shown{"gpu.fell_off gpu4 logged !reboot>rma"});
  }
  SECTION("in one record of several lines") {
    CHECK(shown(log.says(start,
                         "NVRM: The NVIDIA GPU 0000:5e:00.0\nNVRM: (PCI ID: 10de:2330) installed "
                         "in this system has\nNVRM: fallen off the bus and is not")) ==
          Shown{"gpu.fell_off gpu4 logged !reboot>rma"});
  }
  SECTION("in words that two records share") {
    log.says(start, "NVRM: GPU 0000:3b:00.0: GPU has fallen");
    CHECK(shown(log.says(start, "NVRM: off the bus and is not responding.")) ==
          Shown{"gpu.fell_off gpu3 logged !reboot>rma"});
    CHECK(log.says(start + 2min, "NVRM: another line").findings.empty());
  }
}

TEST_CASE("a switch's fault weighs more when a job died of it") {
  const std::string line =
      "nvidia-nvswitch0: SXid (PCI:0000:c1:00.0): 20034, Fatal, Link 30 LTSSM Fault Up";
  Log log;
  SECTION("after it") {
    CHECK(shown(log.says(start, line)) == Shown{"gpu.sxid 0000:c1:00.0 20034 drain"});
    CHECK(shown(log.watch.on_job_death(start + 59s)) ==
          Shown{"gpu.sxid 0000:c1:00.0 20034 !reset"});
    CHECK(log.watch.on_job_death(start + 60s).findings.empty());
    CHECK(standing(log.watch, start) == Shown{"gpu.sxid 0000:c1:00.0 20034 !reset"});
  }
  SECTION("before its line was read") {
    log.watch.on_job_death(start - 5s);
    CHECK(shown(log.says(start, line)) == Shown{"gpu.sxid 0000:c1:00.0 20034 !reset"});
  }
  SECTION("long after") {
    log.says(start, line);
    CHECK(log.watch.on_job_death(start + 61s).findings.empty());
  }
  SECTION("it goes with the reset of all GPUs") {
    log.says(start, line);
    log.watch.on_reset(gpu3, start + 1min);
    CHECK(standing(log.watch, start + 2min).size() == 1);
    log.watch.on_reset(gpu4, start + 1min);
    CHECK(standing(log.watch, start + 2min).empty());
    CHECK(log.watch.state().switches.size() == 1);
  }
}

TEST_CASE("a benign fault of a switch drains when it comes often") {
  Log log;
  const std::string line = "nvidia-nvswitch0: SXid (PCI:0000:c1:00.0): 20009, Non-fatal, Link 28";
  for (int i = 0; i < 9; ++i) {
    CHECK(shown(log.says(start + i * 1min, line)) == Shown{"gpu.sxid 0000:c1:00.0 20009 warn"});
  }
  CHECK(shown(log.says(start + 9min, line)) == Shown{"gpu.sxid 0000:c1:00.0 20009 drain"});
  CHECK(shown(log.says(start + 80min, line)) == Shown{"gpu.sxid 0000:c1:00.0 20009 warn"});
}

TEST_CASE("adapters are named by their address, and those that are skipped are not judged") {
  Log log;
  const std::string trouble = ": poll_health:174: device's health compromised";
  CHECK(shown(log.says(start, "mlx5_core 0000:5c:00.0" + trouble)) ==
        Shown{"ib.mlx5_fatal mlx5_0 logged !reboot>rma"});
  CHECK(log.says(start, "mlx5_core 0000:5c:00.1" + trouble).findings.empty());
  CHECK(shown(log.says(start, "mlx5_core 0000:77:00.0" + trouble)) ==
        Shown{"ib.mlx5_fatal 0000:77:00.0 logged !reboot>rma"});
  KernelLine line;
  line.text = "mlx5_core: Port module event: module 0, Cable unplugged";
  line.device = "+pci:0000:5c:00.0";
  CHECK(shown(log.watch.feed(line)) == Shown{"ib.mlx5_warn mlx5_0 logged warn"});
}

TEST_CASE("changes of links are handed on, once a minute each way") {
  Log log;
  const KernelEvents down = log.says(start, "mlx5_core 0000:5c:00.0 ib0: Link down");
  REQUIRE(down.links.size() == 1);
  CHECK(down.links[0].device == "mlx5_0");
  CHECK_FALSE(down.links[0].is_up);
  CHECK(log.says(start + 1s, "mlx5_core 0000:5c:00.0 ib0: Link up").links.at(0).is_up);
  CHECK(log.says(start + 2s, "mlx5_core 0000:5c:00.0 ib0: Link down").links.empty());
  CHECK(log.says(start + 61s, "mlx5_core 0000:5c:00.0 ib0: Link down").links.size() == 1);
  CHECK(log.says(start, "mlx5_core 0000:5c:00.1 ib1: Link down").links.empty());
  CHECK(log.says(start, "mlx5_core 0000:5c:00.0: ACCESS_REG(0x805) op_mod(0x1) failed")
            .refused_registers == Shown{"mlx5_0"});
}

TEST_CASE("failures stand until they are seen to") {
  Log log;
  log.xid(start, 48);
  log.xid(start, 31, "", "0000:5e:00");
  log.says(start, "INFO: task x:1 blocked for more than 120 seconds.");
  log.says(start, "Oops: 0002 [#1] PREEMPT SMP NOPTI");
  log.says(start, "Out of memory: Killed process 1 (python)");
  CHECK(standing(log.watch, start + 9min) == Shown{"gpu.xid gpu3 48 !reset>rma",
                                                   "host.hung  logged drain>reboot",
                                                   "host.oops  logged reboot"});
  CHECK(standing(log.watch, start + 10min) ==
        Shown{"gpu.xid gpu3 48 !reset>rma", "host.oops  logged reboot"});
  log.watch.on_reset(gpu3, start + 11min);
  CHECK(standing(log.watch, start + 12min) == Shown{"host.oops  logged reboot"});
  log.watch.on_cleared("host.oops", "");
  CHECK(standing(log.watch, start + 12min).empty());
}

TEST_CASE("a milder failure does not hide a heavier one that stands") {
  Log log;
  log.xid(start, 79);
  log.xid(start, 168);
  CHECK(standing(log.watch, start) == Shown{"gpu.xid gpu3 79 !reboot>rma"});
}

TEST_CASE("a log that cannot be read is unknown, a quiet one a pass") {
  Log log;
  log.says(start, "Oops: 0002 [#1]");
  int passes = 0;
  for (const HealthFinding& finding : log.watch.standing({"", true}, start)) {
    CHECK(finding.status != CheckStatus::unknown);
    passes += finding.status == CheckStatus::pass ? 1 : 0;
  }
  CHECK(passes == 9);  // two of each GPU, the adapter's, host.hung, io, pcie, throttle
  for (const HealthFinding& finding : log.watch.standing({"Permission denied", true}, start)) {
    INFO(finding.check);
    if (finding.check == "gpu.xid") {
      CHECK(finding.status == CheckStatus::pass);
    } else if (finding.check == "host.oops") {
      CHECK(finding.status == CheckStatus::fail);
    } else {
      CHECK(finding.status == CheckStatus::unknown);
      CHECK_THAT(finding.evidence.at(0), ContainsSubstring("Permission denied"));
    }
  }
}

TEST_CASE("lines that were overwritten before they were read are counted") {
  Log log;
  log.says(start, "first");
  log.sequence += 7;
  log.says(start, "later");
  CHECK(log.watch.state().lost_lines == 7);
}

TEST_CASE("a flood of the same lines is told once a minute from bounded memory") {
  Log log;
  std::size_t told = 0;
  std::size_t largest = 0;
  constexpr int copies = 2000;
  for (int copy = 0; copy < copies; ++copy) {
    const SinceBoot at = start + copy * 1ms;
    for (int kind = 0; kind < 29; ++kind) {
      const KernelEvents events =
          kind < 20 ? log.xid(at, 46 + kind)
                    : log.says(at, "mlx5_core 0000:5c:00." + std::to_string(kind % 8) +
                                       ": health compromised");
      told += events.findings.size();
    }
    largest = std::max(largest, log.watch.state().seen.size());
  }
  CHECK(told < 40);
  CHECK(largest < 40);
}

TEST_CASE("lines about ever new devices are kept within limits") {
  Log log;
  std::mt19937 random(5);
  const char digits[] = "0123456789abcdef";
  for (int i = 0; i < 4000; ++i) {
    std::string address = "0000:00:00";
    for (const std::size_t at : {0, 1, 2, 3, 5, 6, 8, 9}) address[at] = digits[random() % 16];
    const SinceBoot at = start + i * 1ms;
    log.xid(at, static_cast<int>(random() % 200), ", link 1", address);
    log.action(at, "0x1 (GPU Reset Required)");
    log.says(at, "SXid (PCI:" + address + "): 20034, Fatal");
    log.watch.on_reset(address, at);
    log.watch.on_kill(std::vector<std::string>{address}, at);
  }
  const KernelWatchState& state = log.watch.state();
  CHECK(state.seen.size() <= 1024);
  CHECK(state.standing.size() <= 256);
  CHECK(state.resets.size() <= 256);
  CHECK(state.kills.size() <= 256);
  CHECK(state.faults.size() <= 256);
  CHECK(state.actions.size() <= 256);
  CHECK(state.open_sxids.size() <= 64);
  CHECK(state.switches.size() <= 64);
  CHECK(state.nvlink_faults.size() <= 1024);
  CHECK(state.resets_at_epilog.size() <= 256);
}

TEST_CASE("any line is taken without harm, and what is told is printable") {
  Log log;
  std::mt19937 random(9);
  constexpr const char* parts[] = {"NVRM: ",
                                   "Xid (",
                                   "PCI:",
                                   "0000:3b:00",
                                   "): ",
                                   "154",
                                   "149",
                                   ", ",
                                   "74",
                                   "link ",
                                   "SXid (",
                                   "mlx5_core ",
                                   "Link up",
                                   "fallen off",
                                   " the bus",
                                   "\n",
                                   "Fatal",
                                   "\xff\x01",
                                   "Hardware Error",
                                   "BUG:"};
  for (int round = 0; round < 5000; ++round) {
    std::string text;
    for (unsigned i = random() % 12; i > 0; --i) text += parts[random() % std::size(parts)];
    const KernelEvents events = log.says(start + round * 1s, text);
    for (const HealthFinding& finding : events.findings) {
      for (const std::string& line : finding.evidence) CHECK(line == printable(line, 600));
    }
  }
}

TEST_CASE("what a reset ended is not told with it, though both are read at once") {
  const auto line = [](std::uint64_t sequence, const std::string& text) {
    KernelLine one;
    one.sequence = sequence;
    one.since_boot = start + 1h;
    one.text = text;
    return one;
  };
  const std::string load = "NVRM: loading NVIDIA UNIX x86_64 Kernel Module  535";
  const std::string needs_reset = "NVRM: Xid (PCI:0000:3b:00): 46, pid=1, name=python";
  const std::string needs_reboot = "NVRM: Xid (PCI:0000:5e:00): 79, pid=1, name=python";
  Log before;
  const std::vector<KernelLine> ended{line(1, needs_reset), line(2, needs_reboot), line(3, load)};
  CHECK(shown(before.watch.feed(ended)) == Shown{"gpu.xid gpu4 79 !reboot>rma"});
  Log after;
  const std::vector<KernelLine> broke{line(1, load), line(2, needs_reset)};
  CHECK(shown(after.watch.feed(broke)).size() == 1);
}
