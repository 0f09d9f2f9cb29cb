// The bus bandwidth of an all-reduce over the GPUs of a node, by all_reduce_perf of nccl-tests
// (https://github.com/NVIDIA/nccl-tests, 2.x): its table is read, which all versions print.
#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "health/model/performance.h"
#include "health/read/tool_process.h"
#include "scheduler/model/result.h"

namespace muster {

struct AllReduceCall {
  int gpus = 8;
  // GPUs do not reach each other directly, nor over memory: all of it goes over InfiniBand.
  bool over_infiniband = false;
};
std::vector<std::string> nccl_tests_argv(const AllReduceCall& call);

// Of the largest message, GB/s, the slower of out-of-place and in-place. An error where a result
// was wrong or there is no table.
Result<double> read_all_reduce(std::string_view output);

// allreduce8_gb_per_s of eight GPUs, or ib_loop_allreduce_gb_per_s.
std::vector<PerformanceSample> nccl_tests_samples(const AllReduceCall& call, const ToolRun& run);
std::vector<PerformanceSample> run_nccl_tests(const AllReduceCall& call,
                                              std::chrono::seconds limit);

}  // namespace muster
