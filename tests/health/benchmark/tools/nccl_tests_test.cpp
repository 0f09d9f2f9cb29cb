#include "health/benchmark/tools/tools.h"

#include "tests/health/benchmark/tools/tool_output.h"
#include "tests/health/ended_tool.h"

using namespace muster;

namespace {

// Synthetic, in the form of nccl-tests 2.13 as https://github.com/NVIDIA/nccl/issues/1530 shows it.
const std::string table = R"(
# nThread 1 nGpus 8 minBytes 1073741824 maxBytes 8589934592 step: 2(factor) warmup iters: 5
#
# Using devices
#  Rank  0 Group  0 Pid  28307 on  n1 device  0 [0x16] NVIDIA H100 80GB HBM3
#
#                                            out-of-place              in-place
#  size   count  type redop root   time algbw  busbw #wrong   time  algbw  busbw #wrong
#   (B) (elements)                 (us) (GB/s) (GB/s)         (us) (GB/s) (GB/s)
 1073741824  268435456 float sum -1  4300.1 249.70 436.98 0  4290.0 250.29 438.01 0
 8589934592 2147483648 float sum -1 31530.2 272.43 476.76 0 31601.7 271.82 475.68 0
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 456.858
#
)";

PerformanceSample only(const ToolRun& run, bool over_infiniband = false) {
  const auto samples = nccl_tests_samples({8, over_infiniband}, run);
  REQUIRE(samples.size() == 1);
  return samples.front();
}

}  // namespace

TEST_CASE("the largest message counts, of its two ways the slower") {
  const auto inside = only(ended(0, table));
  CHECK(inside.metric == "allreduce8_gb_per_s");
  CHECK(inside.value == 475.68);
  CHECK(only(ended(0, table), true).metric == "ib_loop_allreduce_gb_per_s");
}

TEST_CASE("a loop over InfiniBand lets GPUs reach each other no other way") {
  using Words = std::vector<std::string>;
  const Words plain{"all_reduce_perf", "-b", "1G", "-e", "8G", "-f", "2", "-n", "10", "-g", "4"};
  CHECK(nccl_tests_argv({4, false}) == plain);
  Words loop = plain;
  loop.insert(loop.begin(), {"env", "NCCL_P2P_DISABLE=1", "NCCL_SHM_DISABLE=1"});
  CHECK(nccl_tests_argv({4, true}) == loop);
}

TEST_CASE("a wrong result, no table or a failed run is no figure") {
  CHECK_THAT(only(ended(0, with(table, "436.98 0", "436.98 7"))).error,
             ContainsSubstring("a wrong result"));
  CHECK_THAT(only(ended(0, with(table, "436.98 0", "436.98 N/A"))).error,
             ContainsSubstring("a wrong result"));
  CHECK_THAT(only(ended(0, with(table, "475.68 0", "475.68 7"))).error,
             ContainsSubstring("a wrong result"));
  CHECK_FALSE(only(ended(0, with(table, ": 0 OK", ": 3 FAILED"))).value);
  CHECK_FALSE(only(ended(0, table.substr(0, table.find("# Out of")))).value);
  CHECK_FALSE(only(ended(0, "")).value);
  CHECK_THAT(only(ended(3, table, "n1: Test NCCL failure")).error,
             ContainsSubstring("ended with 3: n1: Test NCCL failure"));
  CHECK(only(not_installed()).is_absent);
  CHECK(only(ended(127, "", "env: 'all_reduce_perf': No such file or directory"), true).is_absent);
  CHECK_FALSE(only(ended(127, "", "")).is_absent);
}

TEST_CASE("no table makes the reader of nccl-tests fail") {
  std::mt19937 random(20261129);
  for (int round = 0; round < 3000; ++round)
    REQUIRE(only(ended(0, garbled(table, random))).value.value_or(1) > 0);
}
