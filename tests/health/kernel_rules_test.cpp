#include "health/kernel/kernel_rules.h"

#include <random>
#include <set>

#include "tests/catch.h"

using namespace muster;

namespace {

struct Case {
  const char* line;
  const char* check;  // empty: none
  const char* severity = "";
};

void check_cases(std::span<const Case> cases) {
  for (const Case& one : cases) {
    INFO(one.line);
    const KernelRule* rule = find_kernel_rule(one.line);
    CHECK((rule ? rule->check : "") == std::string_view(one.check));
    if (rule) CHECK(text_of(rule->severity) == one.severity);
  }
}

}  // namespace

// Messages of the Linux kernel and of NVIDIA's and Mellanox's drivers, as users reported them.
TEST_CASE("each line that matters has its rule") {
  const Case cases[] = {
      {"NVRM: GPU 0000:01:00.0: GPU has fallen off the bus.", "gpu.fell_off", "!reboot>rma"},
      {"NVRM: The NVIDIA GPU 0000:05:00.0 installed in this system has fallen off the bus and is",
       "gpu.fell_off", "!reboot>rma"},
      {"nvidia-peermem nv_get_p2p_free_callback:127 ERROR detected invalid context, skipping",
       "gpu.peermem", "warn"},
      {"mlx5_core 0000:d2:00.0: poll_health:174: device's health compromised - reached miss count.",
       "ib.mlx5_fatal", "!reboot>rma"},
      {"mlx5_core 0000:03:00.0: wait_func:964:(pid 112): ENABLE_HCA(0x104) timeout. Will cause a "
       "leak of a command resource",
       "ib.mlx5_fatal", "!reboot>rma"},
      {"mlx5_core: INFO: synd 0x8: unrecoverable hardware error.", "ib.mlx5_fatal", "!reboot>rma"},
      {"mlx5_core 0000:5c:00.0: mlx5_pcie_event:299:(pid 268): Detected insufficient power on the "
       "PCIe slot (27W).",
       "ib.mlx5_warn", "warn"},
      {"mlx5_core 0000:5c:00.0: Port module event[error]: module 0, Cable error, High Temperature",
       "ib.mlx5_warn", "warn"},
      {"mlx5_core 0000:5c:00.0: Port module event: module 0, Cable unplugged", "ib.mlx5_warn",
       "warn"},
      {"NETDEV WATCHDOG: ib0 (mlx5_core): transmit queue 3 timed out", "ib.mlx5_warn", "warn"},
      {"INFO: task python:4231 blocked for more than 120 seconds.", "host.hung", "drain>reboot"},
      {"watchdog: BUG: soft lockup - CPU#3 stuck for 22s! [python:4231]", "host.hung",
       "drain>reboot"},
      {"rcu: INFO: rcu_sched detected stalls on CPUs/tasks:", "host.hung", "drain>reboot"},
      {"INFO: rcu_preempt self-detected stall on CPU", "host.hung", "drain>reboot"},
      {"BUG: unable to handle page fault for address: ffffffffc0a0", "host.oops", "reboot"},
      {"Oops: 0002 [#1] PREEMPT SMP NOPTI", "host.oops", "reboot"},
      {"Internal error: Oops: 96000004 [#1] SMP", "host.oops", "reboot"},
      {"general protection fault, probably for non-canonical address 0xdead: 0000 [#1]",
       "host.oops", "reboot"},
      {"kernel BUG at mm/slub.c:305!", "host.oops", "reboot"},
      {"Out of memory: Killed process 4231 (python) total-vm:1kB", "host.oom", "warn"},
      {"Memory cgroup out of memory: Killed process 4231 (python)", "host.oom", "warn"},
      {"mce: [Hardware Error]: Machine check events logged", "host.edac", "warn"},
      {"{1}[Hardware Error]: event severity: corrected", "host.edac", "warn"},
      {"{1}[Hardware Error]: event severity: fatal", "host.edac", "!reboot>rma"},
      {"[Hardware Error]: Uncorrected, software restartable error.", "host.edac", "!reboot>rma"},
      {"mce: [Hardware Error]: CPU 3: Machine Check Exception: 5 Bank 1: be00", "host.edac",
       "!reboot>rma"},
      {"EDAC MC0: 1 UE memory read error on CPU_SrcID#0", "host.edac", "!reboot>rma"},
      {"EDAC MC0: 1 CE memory read error on CPU_SrcID#0", "host.edac", "warn"},
      {"nfs: server 10.0.0.5 not responding, still trying", "host.nfs_log", "warn"},
      {"EXT4-fs (nvme0n1p2): Remounting filesystem read-only", "host.ro", "!reboot"},
  };
  check_cases(cases);
  CHECK(find_kernel_rule("Out of memory: Killed process 1 (x)")->fault_class == FaultClass::user);
  CHECK(find_kernel_rule("nfs: server a not responding")->fault_class == FaultClass::infra);
}

TEST_CASE("lines that only look so have no rule") {
  const Case cases[] = {
      {"", ""},
      {"traps: python[123] general protection fault ip:7f sp:7f error:0 in libfoo.so", ""},
      {"BUG: [1234]: segfault at 0 ip 0000 sp 0000 error 4 in a.out", ""},
      {"EDAC MC UE x[77]: segfault at 0 ip 0000", ""},
      {"soft lockup[77]: segfault at 0 ip 0000", ""},
      {"foo 1-1: DEBUG: all is well", ""},
      {"Kernel command line: ro rcupdate.rcu_cpu_stall_timeout=60 oops=panic", ""},
      {"Command line: BOOT_IMAGE=/vmlinuz nmi_watchdog=0 rcu stall", ""},
      {"rcu: Hierarchical RCU implementation.", ""},
      {"rcu: installing hooks", ""},
      {"nfs: server 10.0.0.5 OK", ""},
      {"NETDEV WATCHDOG: eth0 (igb): transmit queue 3 timed out", ""},
      {"EDAC MC: Ver: 3.0.0", ""},
      {"EXT4-fs (sda1): re-mounted. Opts: errors=remount-ro", ""},
  };
  check_cases(cases);
}

TEST_CASE("changes of a link") {
  CHECK(parse_link_change("mlx5_core 0000:08:00.7 ens9f0v5: Link down") == false);
  CHECK(parse_link_change("mlx5_core 0000:08:00.0 ib0: Link up") == true);
  CHECK_FALSE(parse_link_change("igb 0000:08:00.0 eth0: Link down"));
  CHECK_FALSE(parse_link_change("mlx5_core 0000:08:00.0: firmware version: 16.35.4506"));
}

TEST_CASE("a register that the firmware refuses") {
  CHECK(
      is_refused_register("mlx5_core 0000:0c:00.0: mlx5_cmd_out_err:808: ACCESS_REG(0x805) "
                          "op_mod(0x1) failed, status bad parameter(0x3)"));
  CHECK_FALSE(is_refused_register("mlx5_core 0000:0c:00.0: Link up"));
}

TEST_CASE("rules match any bytes without harm") {
  std::mt19937 random(3);
  for (int round = 0; round < 2000; ++round) {
    std::string text(random() % 200, ' ');
    for (char& c : text) c = static_cast<char>(random());
    find_kernel_rule(text);
    parse_link_change(text);
  }
  CHECK(find_kernel_rule(std::string(1 << 20, 'B')) == nullptr);
}

TEST_CASE("each rule names a check and what is expected") {
  std::set<std::string_view> checks;
  for (const KernelRule& rule : kernel_rules()) {
    checks.insert(rule.check);
    CHECK_FALSE(rule.expected.empty());
  }
  CHECK(checks.size() == 10);
}
