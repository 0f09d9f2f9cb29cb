#include "tests/health/corpus_noise.h"

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <random>
#include <set>

#include "tests/health/fake_host.h"
#include "tests/health/simulated_agent.h"
#include "tests/health/simulated_fleet.h"

namespace muster {

namespace {

using std::chrono::seconds;

constexpr int checks_of_node = 250;
constexpr int devices_of_node = 8;
constexpr int nodes_least = 4;
// Seconds of the fleet's life. The file server is away for longer than the scheduler waits; what
// breaks on one node alone does so long before.
constexpr int breaks_at = 100;
constexpr int stall_begin = 400;
constexpr int stall_end = 700;
constexpr int life_least = 1'200;
constexpr const char* stall_check = "host.mount_stall";

HealthProfile strict(HealthProfile profile) {
  profile.checks["*"].mode = CheckMode::enforce;
  profile.host.mounts.push_back("/data");
  return profile;
}

class NoisyNode {
 public:
  NoisyNode(FakeKind kind, const HealthProfile& profile, std::uint64_t seed)
      : random_(seed), node_(kind), is_booting_(seed % 2 == 0) {
    node_.append("/proc/self/mountinfo",
                 "40 22 0:50 / /data rw,relatime shared:9 - nfs4 10.0.0.4:/data rw,vers=4.1\n");
    answer_again();
    agent_ = std::make_unique<SimulatedAgent>(
        node_, profile, is_booting_ ? seconds(15) : seconds(86'400 + 1000 * (seed % 50)));
    agent_->phase = Phase::periodic;
    agent_->situation.is_idle = false;
    log_history();
    if (is_booting_) links_down();
  }

  // A second of the fleet's time.
  void live(int second, Time until) {
    second_ = second;
    disturb();
    const auto left = std::chrono::duration_cast<seconds>(until - agent_->now().wall);
    if (left > seconds(0)) agent_->run_for(left);
    mend();
  }
  // What is believed is worth to be told again.
  std::optional<NodeVerdict> news() {
    if (agent_->said() == judged_) return std::nullopt;
    judged_ = agent_->said();
    return agent_->verdict();
  }

  void lose_gpu() { agent_->logs(xid(3, 79)); }
  void lose_file_server() {
    is_cut_off_ = true;
    node_.hang("/data");
  }

  int runs() const { return agent_->runs(); }
  Time now() const { return agent_->now().wall; }

 private:
  bool happens(double share) { return std::uniform_real_distribution<>(0, 1)(random_) < share; }
  int any(int count) { return static_cast<int>(random_() % static_cast<unsigned>(count)); }
  std::string port(int hca) const {
    return "/sys/class/infiniband/mlx5_ib" + std::to_string(hca) + "/ports/1";
  }
  std::string xid(int gpu, int code) const {
    return "NVRM: Xid (PCI:" + node_.gpu_address(gpu).substr(0, 10) + "): " + std::to_string(code) +
           ", pid=4711, name=python, Ch 00000008";
  }

  // What the kernel's buffer still holds from the node's earlier life: all of it was seen to, or
  // passed by itself.
  void log_history() {
    const seconds at_boot(is_booting_ ? 10 : 86'000);
    std::vector<SimulatedAgent::LoggedBefore> before{
        {at_boot, "BERT: Error records from previous boot:"},
        {at_boot, "[Hardware Error]: event severity: fatal"}};
    if (!is_booting_) {
      for (const int code : {48, 95, 119, 74}) before.emplace_back(7'200, xid(2, code));
      before.emplace_back(6'900, "NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  570");
      before.emplace_back(4'000, "INFO: task python:812 blocked for more than 120 seconds.");
      for (int flap = 0; flap < 6; ++flap)
        before.emplace_back(3'000, "mlx5_core 0000:3a:00.0 ib2: Link down");
    }
    agent_->had_logged(before);
  }

  // Links come up minutes after the boot.
  void links_down() {
    for (int device = 0; device < devices_of_node; ++device) {
      node_.set(port(device) + "/state", "2: INIT\n");
      node_.set(port(device) + "/phys_state", "2: Polling\n");
    }
    node_.nvml("gpu*.link.*.state 0\ngpu*.fabric.state 2");
  }
  void links_up() {
    for (int device = 0; device < devices_of_node; ++device) {
      node_.set(port(device) + "/state", "4: ACTIVE\n");
      node_.set(port(device) + "/phys_state", "5: LinkUp\n");
    }
    node_.nvml("gpu*.link.*.state 1\ngpu*.fabric.state 3");
  }

  void disturb() {
    if (is_booting_ && second_ == 240) links_up();
    if (second_ == stall_begin) node_.hang("/data");
    if (second_ == stall_end && !is_cut_off_) answer_again();
    creep();
    if (happens(0.01)) reset_counters();
    if (happens(0.05)) spoil_one_poll();
    if (happens(0.01)) kill_ranks();
    if (happens(0.01)) log_noise();
    if (happens(0.002)) agent_->restarts();
  }

  void answer_again() {
    node_.set("/data", "");
    node_.set("statvfs:/data", space_text(9'000ll << 30, 4'000ll << 30));
  }

  // Below all limits, for ever.
  void creep() {
    const std::string counters = port(any(devices_of_node)) + "/counters/";
    node_.add(port(any(devices_of_node)) + "/counters/port_xmit_data", 1'000'000);
    node_.add(port(any(devices_of_node)) + "/counters/port_rcv_data", 1'000'000);
    node_.add(port(any(devices_of_node)) + "/counters/port_xmit_wait", 50'000);
    if (happens(0.1)) node_.add(counters + "symbol_error", 1);
    if (happens(0.05)) node_.add(counters + "link_error_recovery", 1);
    if (happens(0.2)) node_.add(counters + "port_rcv_errors", any(5));
    if (happens(0.2)) node_.add(counters + "port_xmit_discards", any(200));
    if (happens(0.02)) node_.add(counters + "port_rcv_switch_relay_errors", 1);
    if (happens(0.02))
      node_.add(port(any(devices_of_node)) + "/hw_counters/out_of_sequence", 9'000);
    const std::string gpu = "gpu" + std::to_string(any(devices_of_node));
    if (happens(0.1)) node_.nvml_add(gpu + ".field.94", any(3));
    if (happens(0.05)) node_.nvml_add(gpu + ".ecc.dram.cor.aggregate", any(100));
    if (happens(0.02)) node_.nvml_add(gpu + ".field.52", 1);
    if (second_ % 3'000 == 2'999) node_.add("/sys/devices/system/edac/mc/mc1/ce_count", 1);
  }

  // perfquery -R, or a driver that was loaded anew.
  void reset_counters() {
    const std::string folder = port(any(devices_of_node)) + "/counters/";
    for (const char* counter : {"symbol_error", "port_rcv_errors", "port_xmit_data"})
      node_.set(folder + counter, "0\n");
  }

  // Bad for one look, good at the next.
  void spoil_one_poll() {
    const std::array<std::pair<const char*, const char*>, 5> odd{{{"/state", "1: DOWN\n"},
                                                                  {"/phys_state", "2: Polling\n"},
                                                                  {"/rate", "100 Gb/sec (1X)\n"},
                                                                  {"/state", "\x01\xff"},
                                                                  {"/lid", "0x0\n"}}};
    if (spoiled_) return;
    const auto& [leaf, text] = odd[static_cast<std::size_t>(any(odd.size()))];
    const std::string path = port(any(devices_of_node)) + leaf;
    spoiled_ = {path, node_.files().reading(path).text};
    spoiled_at_ = agent_->runs();
    if (happens(0.3)) {
      node_.set_error(path, "Input/output error");
    } else {
      node_.set(path, text);
    }
  }
  void mend() {
    if (!spoiled_ || agent_->runs() == spoiled_at_) return;
    node_.set(spoiled_->first, spoiled_->second);
    spoiled_.reset();
  }

  // Ranks that are killed in the middle of their work leave these behind, by log and by event.
  void kill_ranks() {
    agent_->kills({});
    for (int gpu = 0; gpu < devices_of_node; ++gpu) {
      for (const int code : {43, 45}) agent_->logs(xid(gpu, code));
      if (happens(0.2)) agent_->tells({gpu, gpu_event_xid, 43});
      if (happens(0.1)) agent_->logs(xid(gpu, 31));
    }
  }

  void log_noise() {
    static const std::array<const char*, 22> lines{
        "nfs: server 10.0.0.4 not responding, still trying",
        "Out of memory: Killed process 4711 (python) total-vm:1000kB",
        "mlx5_core 0000:2a:00.0: mlx5_pcie_event: Detected insufficient power on the PCIe slot",
        "mlx5_core 0000:2a:00.0: Port module event: module 0, Cable unplugged",
        "{1}[Hardware Error]: Hardware error from APEI; corrected; no action required",
        "traps: python[812] general protection fault ip:7f1 sp:7ffe error:0 in libc.so",
        "python[99]: segfault at 0 ip 00007f1 sp 00007ffe error 4 in libtorch.so",
        "nvidia-nvswitch1: SXid (PCI:0000:c1:00.0): 12021, Non-fatal, Link 3 ingress",
        "NVRM: Xid (PCI:0000:5d:00): 141, fast path",
        "perf: interrupt took too long (2501 > 2500), lowering kernel.perf_event_max_sample_rate",
        "Buffer I/O error on dev sr0, logical block 0, async page read",
        "nvme nvme3: I/O 978 QID 3 timeout, completion polled",
        "nvme nvme3: I/O 259 QID 2 timeout, aborting",
        "pcieport 0000:16:01.0: AER: Corrected error received: 0000:5d:00.0",
        "pcieport 0000:16:01.0: AER: Uncorrected (Non-Fatal) error received: 0000:5d:00.0",
        "EXT4-fs warning (device sda1): ext4_dx_add_entry: Directory index full!",
        "XFS (sda2): Mounting V5 Filesystem",
        "md: md127: data-check done.",
        "CPU12: Package temperature is above threshold, cpu clock is throttled (total events = 7)",
        "CPU12: Package temperature/speed normal",
        "mlx5_core 0000:2a:00.0: temp_warn:170:(pid 0): High temperature on sensors with bit set 0",
        "LustreError: 167-0: fs-OST0001-osc-ffff8801: This client was evicted by fs-OST0001; in"};
    agent_->logs(lines[static_cast<std::size_t>(any(lines.size()))]);
    if (happens(0.3)) agent_->logs(xid(any(devices_of_node), 13));  // the user's own
  }

  std::mt19937_64 random_;
  FakeNode node_;
  bool is_booting_;
  std::unique_ptr<SimulatedAgent> agent_;
  int second_ = 0;
  int judged_ = -1;
  std::optional<std::pair<std::string, std::string>> spoiled_;
  int spoiled_at_ = 0;
  bool is_cut_off_ = false;
};

class NoisyFleet {
 public:
  NoisyFleet(const HealthProfile& h100, const HealthProfile& a100, const NoisePlan& plan)
      : plan_(plan) {
    const int count = std::max(nodes_least, plan.node_checks / checks_of_node);
    std::vector<NodeId> ids_of_h100;
    std::vector<NodeId> ids_of_a100;
    for (int i = 0; i < count; ++i) {
      const bool is_h100 = i % 4 < 2;
      const HealthProfile profile = strict(is_h100 ? h100 : a100);
      nodes_.push_back(std::make_unique<NoisyNode>(is_h100 ? FakeKind::h100 : FakeKind::a100,
                                                   profile, static_cast<std::uint64_t>(i)));
      (is_h100 ? ids_of_h100 : ids_of_a100).push_back(id_of(i));
    }
    fleet_ = std::make_unique<SimulatedFleet>(nodes_.front()->now());
    if (plan.forgets_shared_causes) fleet_->forget_shared_causes();
    fleet_->add_target("h100", ids_of_h100, strict(h100));
    fleet_->add_target("a100", ids_of_a100, strict(a100));
  }

  NoiseCount replay() {
    for (int second = 0; second < life_least || runs() < plan_.node_checks; ++second) {
      if (plan_.breaks_nodes && second == breaks_at) {
        nodes_[0]->lose_gpu();
        nodes_[1]->lose_file_server();
      }
      live(second);
    }
    return count();
  }

 private:
  static NodeId id_of(std::size_t number) { return NodeId{"node" + std::to_string(number)}; }

  void live(int second) {
    const Time until = fleet_->now() + seconds(1);
    for (const auto& node : nodes_) node->live(second, until);
    fleet_->pass_until(until);
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      const auto verdict = nodes_[i]->news();
      if (!verdict) continue;
      fleet_->tell(id_of(i), *verdict);
      const bool has_stalled = std::ranges::any_of(verdict->drains, [](const ActiveFault& fault) {
        return fault.finding.check == stall_check;
      });
      if (has_stalled) stalled_.insert(i);
    }
  }

  int runs() const {
    int sum = 0;
    for (const auto& node : nodes_) sum += node->runs();
    return sum;
  }

  NoiseCount count() const {
    NoiseCount count;
    count.node_checks = runs();
    count.nodes = static_cast<int>(nodes_.size());
    count.stalled = static_cast<int>(stalled_.size());
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      const bool is_broken = plan_.breaks_nodes && i < 2;
      if (fleet_->has_drained(id_of(i)))
        count.*(is_broken ? &NoiseCount::broken_drained : &NoiseCount::drains) += 1;
    }
    for (const FleetDrain& one : fleet_->drains()) {
      count.drained.push_back(one.node.value + ": " + one.reason + ": " + one.what);
    }
    count.open_breakers = fleet_->open_breakers();
    return count;
  }

  NoisePlan plan_;
  std::vector<std::unique_ptr<NoisyNode>> nodes_;
  std::unique_ptr<SimulatedFleet> fleet_;
  std::set<std::size_t> stalled_;
};

}  // namespace

NoiseCount replay_noise(const HealthProfile& h100, const HealthProfile& a100,
                        const NoisePlan& plan) {
  return NoisyFleet(h100, a100, plan).replay();
}

}  // namespace muster
