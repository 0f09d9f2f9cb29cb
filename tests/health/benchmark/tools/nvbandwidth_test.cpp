#include "health/benchmark/tools/tools.h"

#include "tests/health/benchmark/tools/tool_output.h"
#include "tests/health/ended_tool.h"

using namespace muster;

namespace {

// Synthetic, in the form that json_output.cpp of nvbandwidth writes
// (https://github.com/NVIDIA/nvbandwidth).
const std::string host_report = R"json({
   "nvbandwidth" : {
      "CUDA Runtime Version" : 12040,
      "Driver Version" : "550.54.15",
      "git_version" : "v0.5",
      "testcases" : [
         {
            "bandwidth_description" : "memcpy CE CPU(row) -> GPU(column) bandwidth (GB/s)",
            "bandwidth_matrix" : [ [ "55.3", "54.9" ] ],
            "name" : "host_to_device_memcpy_ce",
            "status" : "Passed",
            "sum" : 110.2
         },
         {
            "bandwidth_description" : "memcpy CE CPU(row) <- GPU(column) bandwidth (GB/s)",
            "bandwidth_matrix" : [ [ "53.1", "N/A" ] ],
            "name" : "device_to_host_memcpy_ce",
            "status" : "Passed",
            "sum" : 53.1
         }
      ],
      "version" : "v0.5"
   }
})json";
const std::string peer_report = R"({"nvbandwidth": {"testcases": [
  {"name": "device_to_device_memcpy_write_ce", "status": "Passed",
   "bandwidth_matrix": [["N/A", "276.07"], ["276.19", "N/A"]]}]}})";
const std::string memory_report = R"({"nvbandwidth": {"testcases": [
  {"name": "device_local_copy", "status": "Passed", "bandwidth_matrix": [["1340.5"]]}]}})";

// "h2d_gb_per_s gpu0 55.3"
std::vector<std::string> lines_of(CopyKind kind, const ToolRun& run) {
  std::vector<std::string> lines;
  for (const PerformanceSample& one : nvbandwidth_samples(kind, run)) {
    lines.push_back(one.metric + " " + (one.device.empty() ? "-" : one.device) + " " +
                    (one.value ? std::to_string(static_cast<int>(*one.value)) : one.error));
  }
  return lines;
}
using Lines = std::vector<std::string>;

}  // namespace

TEST_CASE("copies are measured of each GPU, of each pair, and within a GPU") {
  CHECK(nvbandwidth_argv(CopyKind::host) == Lines{"nvbandwidth", "--json", "--testcase",
                                                  "host_to_device_memcpy_ce", "--testcase",
                                                  "device_to_host_memcpy_ce"});
  CHECK(lines_of(CopyKind::host, ended(0, host_report)) ==
        Lines{"h2d_gb_per_s gpu0 55", "h2d_gb_per_s gpu1 54", "d2h_gb_per_s gpu0 53"});
  CHECK(lines_of(CopyKind::peer, ended(0, "a library warns\n" + peer_report)) ==
        Lines{"p2p_gb_per_s gpu0:gpu1 276", "p2p_gb_per_s gpu1:gpu0 276"});
  // What is read and what is written.
  CHECK(lines_of(CopyKind::memory, ended(0, memory_report)) == Lines{"hbm_mb_per_s gpu0 2681000"});
}

TEST_CASE("a test that was waived, a run that failed and a report of others are unknown") {
  CHECK(lines_of(CopyKind::peer, ended(0, with(peer_report, "Passed", "Waived"))) ==
        Lines{"p2p_gb_per_s - nvbandwidth: device_to_device_memcpy_write_ce: Waived"});
  const std::string diagonal =
      with(peer_report, R"([["N/A", "276.07"], ["276.19", "N/A"]])", R"([["N/A"]])");
  CHECK_THAT(lines_of(CopyKind::peer, ended(0, diagonal)).front(), ContainsSubstring("no number"));
  CHECK_THAT(lines_of(CopyKind::host, ended(0, peer_report)).front(),
             ContainsSubstring("said nothing of host_to_device_memcpy_ce"));
  const auto failed =
      lines_of(CopyKind::host, ended(1, R"({"nvbandwidth": {"error": "CUDA_ERROR_NO_DEVICE"}})"));
  CHECK(failed == Lines{"h2d_gb_per_s - nvbandwidth: CUDA_ERROR_NO_DEVICE",
                        "d2h_gb_per_s - nvbandwidth: CUDA_ERROR_NO_DEVICE"});
  CHECK_THAT(lines_of(CopyKind::peer, ended(1, peer_report)).front(),
             ContainsSubstring("ended with 1"));
  const auto absent = nvbandwidth_samples(CopyKind::peer, not_installed());
  REQUIRE(absent.size() == 1);
  CHECK(absent.front().is_absent);
  CHECK_THAT(absent.front().error, ContainsSubstring("nvbandwidth is not installed"));
  for (const std::string cell : {R"("x")", "1", "null", R"("-3")", "[]", R"("nan")"}) {
    INFO(cell);
    const auto lines = lines_of(CopyKind::peer, ended(0, with(peer_report, R"("276.07")", cell)));
    CHECK(lines == Lines{"p2p_gb_per_s - the report of nvbandwidth cannot be read"});
  }
}

TEST_CASE("no report makes the reader of nvbandwidth fail") {
  std::mt19937 random(20261128);
  for (int round = 0; round < 3000; ++round) {
    const auto samples =
        nvbandwidth_samples(CopyKind::host, ended(0, garbled(host_report, random)));
    REQUIRE_FALSE(samples.empty());
    for (const PerformanceSample& one : samples) {
      REQUIRE(one.value.has_value() == one.error.empty());
      REQUIRE(one.value.value_or(1) > 0);
    }
  }
}
