// The same exact product (product_sum.h) on every processor again and again, with each of its
// vector units: whose bits differ from the rest, from itself at other times, or from what is right.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "health/active/product_bits.h"
#include "scheduler/model/result.h"

namespace muster {

inline constexpr const char* processor_corruption_metric = "cpu_sdc_wrong_products";
// Processors are one device: a run that finds nothing is a pass of all of them.
inline constexpr const char* processors_device = "cpu";

struct ProcessorProducts {
  std::vector<ProductBits> bits;  // of "cpu3"; of no device: what is known beforehand
  std::vector<int> unreached;     // processors that the system did not let it use
};

struct ProcessorProductsOptions {
  std::chrono::milliseconds time{20'000};
  std::vector<int> processors;
};
// Each of them by a thread that runs nowhere else. An error when there can be no thread.
Result<ProcessorProducts> compute_products(const ProcessorProductsOptions& options);

// How many products are wrong, and of which processors: "cpu 3: its product has …". Unknown where
// nobody can tell, or a processor was not reached. Pure.
PerformanceSample judge_processor_products(const ProcessorProducts& computed);

// "0-3, 8"; of more than a line holds the first ones. Pure.
std::string processors_text(const std::vector<int>& processors);

}  // namespace muster
