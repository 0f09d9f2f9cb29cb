#include "health/checks/kernel/kernel_rules.h"

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

// Each with the function of the Linux kernel, of NVIDIA's open kernel modules or of Lustre that
// prints it; addresses and names as users reported them.
TEST_CASE("disks, file systems and processors that fail have their rules") {
  const Case cases[] = {
      // fs/xfs/xfs_log.c xlog_force_shutdown, xlog_ioend_work; fs/xfs/xfs_fsops.c
      // xfs_do_force_shutdown
      {"XFS (dm-0): log I/O error -5", "host.ro", "!reboot"},
      {"XFS (sda2): Filesystem has been shut down due to log error (0x2).", "host.ro", "!reboot"},
      {"XFS (nvme0n1p1): Metadata I/O Error (0x1) detected at xfs_trans_read_buf_map+0x1a "
       "(fs/xfs/xfs_trans_buf.c:296).  Shutting down filesystem.",
       "host.ro", "!reboot"},
      {"XFS (sdb): User initiated shutdown (0x0) received.  Shutting down filesystem.", ""},
      {"XFS (sda2): Mounting V5 Filesystem", ""},
      // fs/ext4/super.c __ext4_error, __ext4_error_inode
      {"EXT4-fs error (device sda1): ext4_lookup:1785: inode #2: comm ls: deleted inode "
       "referenced: 13",
       "host.io", "drain>reboot"},
      {"EXT4-fs warning (device sda1): ext4_dx_add_entry: Directory index full!", ""},
      // fs/buffer.c buffer_io_error; block/blk-core.c blk_print_req_error
      {"Buffer I/O error on dev dm-0, logical block 20639616, async page read", "host.io",
       "drain>rma"},
      {"critical medium error, dev sda, sector 1953520 op 0x0:(READ) flags 0x80700 phys_seg 4",
       "host.io", "drain>rma"},
      {"blk_update_request: critical medium error, dev nvme0n1, sector 7321520", "host.io",
       "drain>rma"},
      {"Buffer I/O error on dev sr0, logical block 0, async page read", ""},
      {"blk_update_request: critical medium error, dev sr0, sector 0", ""},
      // drivers/nvme/host/pci.c nvme_timeout, nvme_warn_reset, nvme_reset_work; core.c
      // nvme_wait_ready
      {"nvme nvme0: I/O 259 QID 2 timeout, aborting", "host.io", "warn"},
      {"nvme nvme3: I/O tag 0 (1000) QID 4 timeout, reset controller", "host.io", "warn"},
      {"nvme nvme0: I/O 978 QID 3 timeout, completion polled", ""},
      {"nvme nvme0: Device not ready; aborting reset, CSTS=0x1", "host.io", "drain>rma"},
      {"nvme nvme0: Removing after probe failure status: -19", "host.io", "drain>rma"},
      {"nvme nvme0: controller is down; will reset: CSTS=0xffffffff, PCI_STATUS=0x10", "host.io",
       "drain>rma"},
      // drivers/md/raid1.c raid1_error
      {"md/raid1:md127: Disk failure on sdb2, disabling device.", "host.io", "drain>rma"},
      {"md: md127: recovery done.", ""},
      // kernel/watchdog_perf.c watchdog_hardlockup_check
      {"NMI watchdog: Watchdog detected hard LOCKUP on cpu 3", "host.hung", "drain>reboot"},
      {"watchdog: Watchdog detected hard LOCKUP on cpu 117", "host.hung", "drain>reboot"},
      // arch/arm64/mm/fault.c die_kernel_fault; arch/arm64/kernel/traps.c __die
      {"Unable to handle kernel paging request at virtual address ffff8000116af000", "host.oops",
       "reboot"},
      {"Unable to handle kernel NULL pointer dereference at virtual address 0000000000000010",
       "host.oops", "reboot"},
      {"Internal error: synchronous external abort: 0000000096000410 [#1] SMP", "host.oops",
       "reboot"},
      // arch/x86/kernel/cpu/mce/core.c kill_me_maybe; mm/memory-failure.c action_result
      {"mce: Uncorrected hardware memory error in user-access at e8ac0000", "host.edac",
       "!reboot>rma"},
      {"Memory failure: 0xe8ac0: recovery action for dirty LRU page: Recovered", "host.edac",
       "!reboot>rma"},
      {"Memory failure: 0x3b116c: Sending SIGBUS to python:4711 due to hardware memory corruption",
       "host.edac", "!reboot>rma"},
      // drivers/thermal/intel/therm_throt.c therm_throt_process
      {"CPU12: Package temperature is above threshold, cpu clock is throttled (total events = 7)",
       "host.throttle", "warn"},
      {"CPU0: Core temperature above threshold, cpu clock throttled (total events = 1)",
       "host.throttle", "warn"},
      {"CPU12: Package temperature/speed normal", ""},
      // drivers/pci/pcie/aer.c aer_print_error, aer_print_port_info
      {"pcieport 0000:16:01.0: AER: Uncorrected (Fatal) error received: 0000:17:00.0", "host.pcie",
       "drain>rma"},
      {"nvme 0000:17:00.0: PCIe Bus Error: severity=Uncorrectable (Fatal), type=Transaction Layer, "
       "(Receiver ID)",
       "host.pcie", "drain>rma"},
      {"pcieport 0000:16:01.0: AER: Uncorrected (Non-Fatal) error received: 0000:17:00.0", ""},
      {"pcieport 0000:16:01.0: AER: Corrected error received: 0000:17:00.0", ""},
      // lustre/ptlrpc/import.c ptlrpc_connect_interpret
      {"LustreError: 167-0: fs-OST0001-osc-ffff8801: This client was evicted by fs-OST0001; in "
       "progress operations using this service will fail.",
       "host.nfs_log", "warn"},
  };
  check_cases(cases);
}

TEST_CASE("GPUs that do not start and adapters that give up have their rules") {
  const Case cases[] = {
      // src/nvidia/arch/nvalloc/unix/src/osinit.c RmInitAdapter
      {"NVRM: GPU 0000:02:00.0: RmInitAdapter failed! (0x24:0x65:1185)", "gpu.lost", "reboot>rma"},
      // src/nvidia/src/kernel/rmapi, by nvAssertOkFailedNoLog
      {"NVRM: nvAssertOkFailedNoLog: Assertion failed: Reset required [NV_ERR_RESET_REQUIRED] "
       "(0x00000062) returned from status @ kernel_channel.c:2874",
       "gpu.recovery_action", "!reset"},
      // src/nvidia/src/kernel/gpu/nvlink/arch/hopper/kernel_nvlinkgh100.c
      // knvlinkDiscoverPostRxDetLinks
      {"NVRM: knvlinkDiscoverPostRxDetLinks_GH100: Getting peer0's postRxDetLinkMask failed!",
       "gpu.nvlink_active", "reboot"},
      {"NVRM: knvlinkUpdatePostRxDetectLinkMask_IMPL: Failed to update Rx Detect Link mask!",
       "gpu.nvlink_active", "reboot"},
      // drivers/net/ethernet/mellanox/mlx5/core/health.c mlx5_trigger_health_work,
      // print_health_info, mlx5_health_try_recover
      {"mlx5_core 0000:41:00.0: poll_health:795:(pid 0): Fatal error 1 detected", "ib.mlx5_fatal",
       "!reboot>rma"},
      {"mlx5_core 0000:41:00.0: print_health_info:429:(pid 0): synd 0x1: firmware internal error",
       "ib.mlx5_fatal", "!reboot>rma"},
      {"mlx5_core 0000:61:00.1: mlx5_health_try_recover:381:(pid 1): health recovery flow aborted, "
       "PCI reads still not working",
       "ib.mlx5_fatal", "!reboot>rma"},
      {"mlx5_core 0000:61:00.1: non-fatal error handled", ""},
      {"mlx5_core 0000:61:00.0: print_health_info:520:(pid 0): synd 0x10: High temperature",
       "ib.mlx5_warn", "warn"},
      // .../mlx5/core/events.c temp_warn, mlx5_pme_error
      {"mlx5_core 0000:41:00.1: temp_warn:170:(pid 0): High temperature on sensors with bit set 0 "
       "1",
       "ib.mlx5_warn", "warn"},
      {"mlx5_core 0000:5c:00.0: Port module event[error]: module 1, Cable error, Power budget "
       "exceeded",
       "ib.mlx5_warn", "warn"},
  };
  check_cases(cases);
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
  CHECK(checks.size() == 16);
}
