#include "health/learn/profile.h"

#include <algorithm>

#include "scheduler/text/pattern.h"
#include "tests/catch.h"
#include "tests/health/fake_node.h"

using namespace muster;

namespace {

LearnedProfile learn(FakeNode& node) {
  return learn_profile(node.read(learning_request()), "good");
}

bool says(const LearnedProfile& node, const std::string& words) {
  return std::ranges::any_of(node.left_out,
                             [&](const std::string& one) { return one.find(words) != one.npos; });
}

}  // namespace

TEST_CASE("a healthy node of eight GPUs tells all that a profile holds") {
  FakeNode node(FakeKind::h100);
  const LearnedProfile learned = learn(node);
  const HealthProfile& profile = learned.profile;
  CHECK(profile.name == "good");
  CHECK(profile.match_gpu_name == "NVIDIA H100 80GB HBM3");
  CHECK(profile.gpu.count == 8);
  CHECK(profile.gpu.nvlinks == 18);
  CHECK(profile.gpu.nvlink_mb_per_s == 26562);
  CHECK(profile.gpu.pcie_gen == 5);
  CHECK(profile.gpu.pcie_width == 16);
  CHECK(profile.gpu.ecc == true);
  CHECK(profile.gpu.mig == false);
  CHECK(profile.gpu.persistence == true);
  CHECK(profile.ib.ports.size() == 8);
  CHECK(profile.ib.rate_gbps == 400);
  CHECK(profile.ib.width == "4X");
  CHECK(profile.host.nofile == 65536);  // more than enough is not asked of others
  CHECK(profile.required == std::vector<std::string>{"gpu.count", "gpu.nvlink_active", "ib.state"});
  CHECK(profile.host.mem_kb == 1961032704);
  CHECK(profile.host.swap_kb == 0);
  CHECK(profile.host.cpus == 96);
  CHECK(profile.host.numa_nodes == 2);
  CHECK(profile.host.nvmes == 8);
  CHECK(profile.host.shm_kb == 980516352);
  CHECK(profile.host.mounts == std::vector<std::string>{"/data", "/share d"});
  CHECK(learned.left_out.empty());
}

TEST_CASE("what GPUs do not agree about is left out, and said") {
  FakeNode node(FakeKind::h100);
  node.nvml("gpu5.ecc.current 0");
  node.nvml("gpu2.name NVIDIA H200");
  const LearnedProfile learned = learn(node);
  CHECK_FALSE(learned.profile.gpu.ecc);
  CHECK(learned.profile.match_gpu_name.empty());
  CHECK(learned.profile.gpu.count == 8);
  CHECK(says(learned, "gpu.ecc: gpu5 says 0, gpu0 says 1"));
  CHECK(says(learned, "match.gpu_name: gpu2 says NVIDIA H200"));
}

TEST_CASE("a link that is down on a node that is taken for good is doubted") {
  FakeNode node(FakeKind::h100);
  node.nvml("gpu3.link.7.state 0");
  const LearnedProfile learned = learn(node);
  CHECK(learned.profile.gpu.nvlinks == 17);
  CHECK(says(learned, "gpu3 has 17 of 18 links up: is this node healthy?"));
}

TEST_CASE("ports that are down are no part of the profile, and said") {
  FakeNode node(FakeKind::h100);
  node.set("/sys/class/infiniband/mlx5_ib2/ports/1/state", "1: DOWN\n");
  node.set_error("/sys/class/infiniband/mlx5_ib4/ports/1/state", "Input/output error");
  const LearnedProfile learned = learn(node);
  CHECK(learned.profile.ib.ports.size() == 6);
  CHECK(says(learned, "ib.ports: mlx5_ib2:1 is DOWN"));
  CHECK(says(learned, "ib.ports: mlx5_ib4:1 is Input/output error"));
}

TEST_CASE("a driver that does not answer leaves its GPUs out, and its name behind") {
  FakeNode node(FakeKind::h100);
  node.nvml_stops_at("gpu0.nvmlDeviceGetSerial");
  const LearnedProfile learned = learn(node);
  CHECK_FALSE(learned.profile.gpu.count);
  CHECK(says(learned, "gpu: 8 on the PCI bus"));
  CHECK(says(learned, "no answer from gpu0.nvmlDeviceGetSerial"));
}

TEST_CASE("files that cannot be read or are nonsense are said by name") {
  FakeNode node(FakeKind::h100);
  node.set_error("/proc/meminfo", "Permission denied");
  node.set("/sys/devices/system/cpu/online", "many\n");
  node.set("statvfs:/dev/shm", "bytes x\n");
  const LearnedProfile learned = learn(node);
  CHECK_FALSE(learned.profile.host.mem_kb);
  CHECK_FALSE(learned.profile.host.cpus);
  CHECK_FALSE(learned.profile.host.shm_kb);
  CHECK(says(learned, "host.mem_kb: /proc/meminfo: Permission denied"));
  CHECK(says(learned, "host.cpus: /sys/devices/system/cpu/online"));
  CHECK(says(learned, "host.shm_kb: statvfs:/dev/shm"));
}

TEST_CASE("a node without GPUs is a node with none") {
  const LearnedProfile learned = learn_profile(NodeReadings{}, "empty");
  CHECK(learned.profile.gpu.count == 0);
  CHECK(learned.profile.ib.ports.empty());
  CHECK(says(learned, "host.mem_kb"));
}

TEST_CASE("a port that is slower than most, or no InfiniBand, is left out with a word") {
  FakeNode node(FakeKind::h100);
  node.set("/sys/class/infiniband/mlx5_ib2/ports/1/rate", "100 Gb/sec (4X EDR)\n");
  node.set("/sys/class/infiniband/mlx5_ib5/ports/1/link_layer", "Ethernet\n");
  const HealthProfile profile = learn(node).profile;
  CHECK(profile.ib.ports.size() == 6);
  CHECK(profile.ib.rate_gbps == 400);
  CHECK(is_excluded(profile, "ib.rate", "mlx5_ib2:1"));
  CHECK(is_excluded(profile, "ib.state", "mlx5_ib5:1"));
  CHECK_FALSE(is_excluded(profile, "ib.state", "mlx5_ib0:1"));
}

TEST_CASE("a name with the letters of a pattern fits itself alone") {
  FakeNode node(FakeKind::h100);
  for (int gpu = 0; gpu < 8; ++gpu) node.nvml("gpu" + std::to_string(gpu) + ".name odd [a-c]*");
  const std::string pattern = learn(node).profile.match_gpu_name;
  CHECK(fits_pattern(pattern, "odd [a-c]*"));
  CHECK_FALSE(fits_pattern(pattern, "odd a"));
}
