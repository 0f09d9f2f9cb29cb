
#include <sys/stat.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <thread>

#include "cli/health/profile.h"
#include "cli/health/run.h"
#include "health/learn/profile.h"
#include "launcher/wire/json_fields.h"
#include "tests/catch.h"
#include "tests/cli/folder.h"
#include "tests/cli/recorded_node.h"

using namespace muster;
using namespace std::chrono_literals;

namespace {

const char* const port_state = "/sys/class/infiniband/mlx5_ib3/ports/1/state";

LookOptions options_of(const HealthProfile& profile = monitor_profile()) {
  LookOptions options;
  options.profile = profile;
  return options;
}

// What a test compares: all but times.
std::vector<std::string> told(const HostHealth& look) {
  std::vector<std::string> lines;
  for (FindingReport report : look.findings) {
    report.ts.clear();
    report.duration_ms = 0;
    report.first_seen.reset();
    lines.push_back(document_line(report_document(report)));
  }
  std::ranges::sort(lines);
  return lines;
}

std::vector<std::string> reported_of(const HealthSourcesOptions& where,
                                     const HealthProfile& profile) {
  HealthSources sources(where);
  NodeLook look(sources, options_of(profile), {});
  look.look();
  return told(look.result());
}

const FindingReport* report_of(const HostHealth& look, std::string_view check,
                               std::string_view device) {
  const auto found = std::ranges::find_if(look.findings, [&](const FindingReport& one) {
    return one.check == check && one.device == device;
  });
  return found == look.findings.end() ? nullptr : &*found;
}

}  // namespace

TEST_CASE("a healthy node of eight GPUs passes every check") {
  RecordedNode recorded;
  recorded.write();
  HealthSources sources(recorded.options());
  NodeLook look(sources, options_of(), {});
  look.look();
  const HostHealth result = look.result();
  CHECK(result.host == "n17");
  CHECK(result.findings.size() > 100);
  CHECK(result.counts.first_readings > 100);
  CHECK(result.hung.empty());
  for (const FindingReport& one : result.findings) {
    CAPTURE(one.check, one.device, one.evidence);
    CHECK(one.status == "pass");
  }
  CHECK(result.verdict.state == HealthExit::healthy);
}

TEST_CASE("a port that is down drains the node after as many looks as its check needs") {
  RecordedNode recorded;
  recorded.node.set(port_state, "1: DOWN\n");
  recorded.write();
  HealthSources sources(recorded.options());
  NodeLook look(sources, options_of(), {});
  look.look();
  CHECK(health_exit(look.verdict()) == HealthExit::unclear);
  CHECK(look.is_open());
  while (look.looks() < 5 && look.is_open()) {
    std::this_thread::sleep_for(fast_sampling);
    look.look();
  }
  CHECK(look.looks() == 3);
  CHECK(health_exit(look.verdict()) == HealthExit::drained);
  CHECK_THAT(look.verdict().reason(), ContainsSubstring("muster:node:ib.state:mlx5_ib3:1"));
}

TEST_CASE("what one run saw counts in the next") {
  RecordedNode recorded;
  recorded.node.set(port_state, "1: DOWN\n");
  recorded.write();
  HealthState state;
  for (int run = 1; run <= 3; ++run) {
    HealthSources sources(recorded.options());
    NodeLook look(sources, options_of(), std::move(state));
    look.look();
    CAPTURE(run);
    CHECK(look.verdict().is_drained() == (run == 3));
    const auto saved = read_versioned_json<HealthState>(versioned_json(look.state(), state_version),
                                                        state_version);
    REQUIRE(saved);
    state = *saved;
    std::this_thread::sleep_for(fast_sampling);
  }
}

TEST_CASE("a file that hangs is said, and keeps no other check from its answer") {
  RecordedNode recorded;
  recorded.write();
  const std::string hung = recorded.root.path() + port_state;
  std::filesystem::remove(hung);
  REQUIRE(::mkfifo(hung.c_str(), 0600) == 0);
  NodeReaderLimits limits;
  limits.source = 200ms;
  HealthSources sources(recorded.options(limits));
  NodeLook look(sources, options_of(), {});
  look.look();
  const HostHealth result = look.result();
  REQUIRE_FALSE(result.hung.empty());
  CHECK(result.hung[0].source == port_state);
  const FindingReport* state = report_of(result, "ib.state", "mlx5_ib3:1");
  REQUIRE(state);
  CHECK(state->status == "unknown");
  CHECK(report_of(result, "ib.state", "mlx5_ib2:1")->status == "pass");
  CHECK(report_of(result, "gpu.count", "")->status == "pass");
  CHECK(result.verdict.state == HealthExit::unclear);
  CHECK_FALSE(look.is_open());  // it would hang again
}

TEST_CASE("what the kernel's log says of a GPU is told with its line") {
  RecordedNode recorded;
  recorded.log = "4,900,86399000000,-;NVRM: Xid (PCI:" + recorded.node.gpu_address(3) +
                 "): 79, pid=4711, GPU has fallen off the bus.\n";
  recorded.write();
  HealthProfile profile = monitor_profile();
  profile.checks["gpu.*"].mode = CheckMode::enforce;
  HealthSources sources(recorded.options());
  NodeLook look(sources, options_of(profile), {});
  look.look();
  const HostHealth result = look.result();
  const FindingReport* xid = report_of(result, "gpu.xid", "gpu3");
  REQUIRE(xid);
  CHECK(xid->status == "fail");
  REQUIRE_FALSE(xid->evidence.empty());
  CHECK_THAT(xid->evidence[0], ContainsSubstring("Xid"));
  CHECK(result.verdict.is_drained());
  const auto is_it = [](const FindingReport& one) {
    return one.check == "gpu.xid" && one.status == "fail";
  };
  CHECK(std::ranges::count_if(result.findings, is_it) == 1);
}

TEST_CASE("only the checks that were asked for are told and judged") {
  RecordedNode recorded;
  recorded.node.set(port_state, "1: DOWN\n");
  recorded.write();
  HealthSources sources(recorded.options());
  LookOptions options = options_of();
  options.checks = {"host.*"};
  NodeLook look(sources, options, {});
  look.look();
  const HostHealth result = look.result();
  REQUIRE_FALSE(result.findings.empty());
  for (const FindingReport& one : result.findings) CHECK(one.check.starts_with("host."));
  CHECK(result.verdict.state == HealthExit::healthy);
}

TEST_CASE("a record of a node says the same as the node") {
  RecordedNode recorded;
  recorded.node.set(port_state, "1: DOWN\n");
  recorded.node.set_error("/sys/class/infiniband/mlx5_ib5/ports/1/rate", "Input/output error");
  recorded.node.remove("/sys/class/infiniband/mlx5_ib6/ports/1/lid");
  recorded.node.nvml("gpu4.link.2.state 0");
  recorded.node.nvml("gpu1.remap.failure 1");
  recorded.log =
      "4,899,86398000000,-;mlx5_core 0000:4a:00.0 ib3: Link down\n"
      "4,900,86399000000,-;NVRM: Xid (PCI:" +
      recorded.node.gpu_address(3) +
      "): 79, pid=4711, \\x41 name=\\x5c\n"
      " SUBSYSTEM=pci\n DEVICE=+pci:" +
      recorded.node.gpu_address(3) + "\n";
  recorded.write();
  const HealthProfile profile = monitor_profile();
  const FakeRoot copy;
  HealthSources sources(recorded.options());
  const auto written = record_sources(sources, profile, copy.path());
  CAPTURE(written ? "" : written.error().message);
  REQUIRE(written);
  const auto first = reported_of(recorded.options(), profile);
  CHECK(first.size() > 100);
  CHECK(reported_of({copy.path(), {health_helper()}, {}}, profile) == first);
}

TEST_CASE("a host whose log may not be read is recorded as such") {
  RecordedNode recorded;
  recorded.write();
  std::filesystem::remove(recorded.root.path() + kernel_log_path);
  recorded.root.write(recorded_log_error, "error Operation not permitted\n");
  const FakeRoot copy;
  HealthSources sources(recorded.options());
  REQUIRE(record_sources(sources, monitor_profile(), copy.path()));
  HealthSources again({copy.path(), {health_helper()}, {}});
  CHECK(again.kernel_lines().empty());
  CHECK(again.log_error() == "Operation not permitted");
}

TEST_CASE("a node finds its profile by its GPUs, and keeps it when one of them is gone") {
  RecordedNode recorded;
  recorded.write();
  HealthSources sources(recorded.options());
  const NodeKind kind = kind_of(sources);
  CHECK(kind.gpu_name == "NVIDIA H100 80GB HBM3");
  CHECK(kind.gpu_count == 8);
  REQUIRE(kind.ports);
  CHECK(kind.ports->size() == 8);
  CHECK(choose_profile(kind, "").profile.name == "ND96isr_H100_v5");
  NodeKind less = kind;
  less.gpu_count = 7;
  CHECK(choose_profile(less, "ND96isr_H100_v5").profile.gpu.count == 8);
  NodeKind portless = kind;
  portless.ports->clear();
  CHECK(choose_profile(portless, "ND96isr_H100_v5").profile.name == "ND96isr_H100_v5");
  CHECK(choose_profile(portless, "ND96asr_v4").profile.name != "ND96isr_H100_v5");
  const ChosenProfile none = choose_profile(less, "");
  CHECK(none.profile.name.empty());
  CHECK_THAT(none.why_none, ContainsSubstring("7 x 'NVIDIA H100 80GB HBM3'"));
}

TEST_CASE("a healthy node of another maker is not drained by a rented size's profile") {
  for (const FakeKind kind : {FakeKind::h100, FakeKind::a100}) {
    RecordedNode recorded("mlx5_", kind);
    recorded.node.set("/sys/class/dmi/id/sys_vendor", "Supermicro\n");
    recorded.node.set("/proc/meminfo",
                      "MemTotal: 1056000000 kB\nMemFree: 900000000 kB\nSwapTotal: 8388604 kB\n");
    recorded.node.remove("/sys/class/infiniband/mlx5_7");
    recorded.node.set("/sys/class/infiniband/mlx5_6/ports/1/state", "1: DOWN\n");
    recorded.node.set("/sys/class/infiniband/mlx5_6/ports/1/phys_state", "3: Disabled\n");
    recorded.write();
    HealthSources sources(recorded.options());
    const ChosenProfile chosen = choose_profile(kind_of(sources), "");
    CHECK(chosen.profile.name == (kind == FakeKind::h100 ? "hgx-h100" : "hgx-a100"));
    NodeLook look(sources, options_of(chosen.profile), {});
    for (int run = 0; run < 3; ++run) look.look();
    CHECK(look.verdict().reason().empty());
    CHECK(health_exit(look.verdict()) == HealthExit::healthy);
  }
}

TEST_CASE("what the firmware and the cloud say of a host decides which profile it has") {
  RecordedNode recorded;
  recorded.node.set("/sys/class/dmi/id/sys_vendor", "NVIDIA\n");
  recorded.node.set("/sys/class/dmi/id/product_name", "DGXH100\n");
  recorded.write();
  HealthSources sources(recorded.options());
  CHECK(kind_of(sources).vendor == "NVIDIA");
  CHECK(choose_profile(kind_of(sources), "").profile.name == "dgx-h100");
  // A name that a site gave its adapters makes no rented size of it.
  CHECK(choose_profile(kind_of(sources), "ND96isr_H100_v5").profile.name == "dgx-h100");
  RecordedNode in_cloud;
  in_cloud.node.set(cloud_metadata, R"({"ds": {"meta_data": {"imds": {"compute": {"location": "x",)"
                                    R"( "vmSize": "Standard_ND96is_H100_v5"}}}}})");
  in_cloud.write();
  HealthSources rented(in_cloud.options());
  CHECK(kind_of(rented).sku == "Standard_ND96is_H100_v5");
  CHECK(choose_profile(kind_of(rented), "dgx-h100").profile.name == "ND96is_H100_v5");
}

TEST_CASE("of GPUs that are not alike the model of most says what the node is") {
  RecordedNode recorded;
  for (int gpu = 0; gpu < 8; ++gpu) {
    const char* model = gpu == 7 ? "Model: \t\t A\n" : "Model: \t\t NVIDIA H200\n";
    recorded.node.set("/proc/driver/nvidia/gpus/" + recorded.node.gpu_address(gpu) + "/information",
                      model);
  }
  recorded.write();
  HealthSources sources(recorded.options());
  CHECK(kind_of(sources).gpu_name == "NVIDIA H200");
  CHECK(kind_of(sources).gpu_count == 8);
}

TEST_CASE("what drains has a row of its own though nothing fails any more") {
  RecordedNode recorded;
  recorded.log = "3,1,86000000000,-;NVRM: Xid (PCI:" + recorded.node.gpu_address(3).substr(0, 10) +
                 "): 79, pid=1, GPU has fallen off the bus.\n";
  recorded.write();
  HealthState state;
  {
    HealthSources sources(recorded.options());
    NodeLook look(sources, options_of(), {});
    look.look();
    CHECK(look.verdict().is_drained());
    state = look.state();
  }
  // The log's line is gone with the boot's, the fault is not.
  state.monitor.kernel = {};
  RecordedNode later;
  later.write();
  HealthSources sources(later.options());
  NodeLook look(sources, options_of(), std::move(state));
  look.look();
  const HostHealth result = look.result();
  REQUIRE(result.verdict.state == HealthExit::drained);
  const FindingReport* row = report_of(result, "gpu.xid", "gpu3");
  REQUIRE(row != nullptr);
  CHECK(row->status == "fail");
  CHECK(row->severity == "!reboot>rma");
  CHECK_THAT(row->evidence.front(), ContainsSubstring("): 79, pid=1"));
  CHECK_THAT(row->evidence.back(), ContainsSubstring("active until a reboot"));
  CHECK(counts_of(result.findings).fail == 1);
  CHECK_THAT(health_text(result, {}), ContainsSubstring("gpu.xid"));
}

TEST_CASE("a driver with a /proc of its own names the GPUs without being asked") {
  RecordedNode recorded;
  for (int gpu = 0; gpu < 8; ++gpu) {
    recorded.node.set("/proc/driver/nvidia/gpus/" + recorded.node.gpu_address(gpu) + "/information",
                      "Model: \t\t NVIDIA H200\nIRQ:   \t\t 1\n");
  }
  recorded.write();
  HealthSources sources(recorded.options());
  CHECK(kind_of(sources).gpu_name == "NVIDIA H200");
  CHECK_FALSE(sources.all().gpus);
}

TEST_CASE("phases are named however they are written") {
  CHECK(phase_of("On_Failure") == Phase::on_failure);
  CHECK(phase_of("on-demand") == Phase::on_demand);
  CHECK_FALSE(phase_of("lunch"));
  CHECK(name_of(Phase::epilog) == "epilog");
}

TEST_CASE("a profile learned from a node finds nothing wrong with it") {
  RecordedNode recorded;
  for (const char* mount : {"/data", "/share d"}) recorded.node.set(mount, "");
  recorded.write();
  HealthSources sources(recorded.options());
  const HealthProfile profile = learn_profile(sources.read(learning_request()), "x").profile;
  CHECK(profile.gpu.count == 8);
  for (const std::string& line : reported_of(recorded.options(), profile)) {
    CAPTURE(line);
    CHECK(line.find(R"("status":"pass")") != line.npos);
  }
}
