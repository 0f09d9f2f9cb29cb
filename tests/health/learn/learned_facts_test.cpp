#include "health/learn/facts.h"

#include <algorithm>

#include "tests/catch.h"
#include "tests/health/fake_node.h"

using namespace muster;

namespace {

LearnedNode learn(FakeNode& node) {
  return facts_of(node.read(learning_request()), "good");
}

bool says(const LearnedNode& node, const std::string& words) {
  return std::ranges::any_of(node.left_out,
                             [&](const std::string& one) { return one.find(words) != one.npos; });
}

}  // namespace

TEST_CASE("a healthy node of eight GPUs tells all that a profile holds") {
  FakeNode node(FakeKind::h100);
  const LearnedNode learned = learn(node);
  const LearnedFacts& facts = learned.facts;
  CHECK(facts.profile_name == "good");
  CHECK(facts.gpu_name == "NVIDIA H100 80GB HBM3");
  CHECK(facts.gpu_count == 8);
  CHECK(facts.nvlinks == 18);
  CHECK(facts.nvlink_mb_per_s == 26562);
  CHECK(facts.pcie_gen == 5);
  CHECK(facts.pcie_width == 16);
  CHECK(facts.ecc == true);
  CHECK(facts.mig == false);
  CHECK(facts.persistence == true);
  REQUIRE(facts.ports.size() == 8);
  CHECK(facts.ports[0].rate_gbps == 400);
  CHECK(facts.ports[0].width == "4X");
  CHECK(facts.mem_kb == 1961032704);
  CHECK(facts.swap_kb == 0);
  CHECK(facts.cpus == 96);
  CHECK(facts.numa_nodes == 2);
  CHECK(facts.nvmes == 8);
  CHECK(facts.shm_kb == 980516352);
  CHECK(facts.mounts == std::vector<std::string>{"/data", "/share d"});
  CHECK(learned.left_out.empty());
}

TEST_CASE("what GPUs do not agree about is left out, and said") {
  FakeNode node(FakeKind::h100);
  node.nvml("gpu5.ecc.current 0");
  node.nvml("gpu2.name NVIDIA H200");
  const LearnedNode learned = learn(node);
  CHECK_FALSE(learned.facts.ecc);
  CHECK_FALSE(learned.facts.gpu_name);
  CHECK(learned.facts.gpu_count == 8);
  CHECK(says(learned, "gpu.ecc: gpu5 says 0, gpu0 says 1"));
  CHECK(says(learned, "match.gpu_name: gpu2 says NVIDIA H200"));
}

TEST_CASE("a link that is down on a node that is taken for good is doubted") {
  FakeNode node(FakeKind::h100);
  node.nvml("gpu3.link.7.state 0");
  const LearnedNode learned = learn(node);
  CHECK(learned.facts.nvlinks == 17);
  CHECK(says(learned, "gpu3 has 17 of 18 links up: is this node healthy?"));
}

TEST_CASE("ports that are down are no part of the profile, and said") {
  FakeNode node(FakeKind::h100);
  node.set("/sys/class/infiniband/mlx5_ib2/ports/1/state", "1: DOWN\n");
  node.set_error("/sys/class/infiniband/mlx5_ib4/ports/1/state", "Input/output error");
  const LearnedNode learned = learn(node);
  CHECK(learned.facts.ports.size() == 6);
  CHECK(says(learned, "ib.ports: mlx5_ib2:1 is DOWN"));
  CHECK(says(learned, "ib.ports: mlx5_ib4:1 is Input/output error"));
}

TEST_CASE("a driver that does not answer leaves its GPUs out, and its name behind") {
  FakeNode node(FakeKind::h100);
  node.nvml_stops_at("gpu0.nvmlDeviceGetSerial");
  const LearnedNode learned = learn(node);
  CHECK_FALSE(learned.facts.gpu_count);
  CHECK(says(learned, "gpu: 8 on the PCI bus"));
  CHECK(says(learned, "no answer from gpu0.nvmlDeviceGetSerial"));
}

TEST_CASE("files that cannot be read or are nonsense are said by name") {
  FakeNode node(FakeKind::h100);
  node.set_error("/proc/meminfo", "Permission denied");
  node.set("/sys/devices/system/cpu/online", "many\n");
  node.set("statvfs:/dev/shm", "bytes x\n");
  const LearnedNode learned = learn(node);
  CHECK_FALSE(learned.facts.mem_kb);
  CHECK_FALSE(learned.facts.cpus);
  CHECK_FALSE(learned.facts.shm_kb);
  CHECK(says(learned, "host.mem_kb: /proc/meminfo: Permission denied"));
  CHECK(says(learned, "host.cpus: /sys/devices/system/cpu/online"));
  CHECK(says(learned, "host.shm_kb: statvfs:/dev/shm"));
}

TEST_CASE("a node without GPUs is a node with none") {
  const LearnedNode learned = facts_of(NodeReadings{}, "empty");
  CHECK(learned.facts.gpu_count == 0);
  CHECK(learned.facts.ports.empty());
  CHECK(says(learned, "host.mem_kb"));
}
