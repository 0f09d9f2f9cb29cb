// Sizes of machines that can be rented, with what decides whether a model fits them and how fast
// they train it. Plain data.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace muster {

struct SkuFacts {
  std::string_view name;         // of Azure, without "Standard_"
  unsigned gpus = 0;             // 0: a machine that computes with its processors
  std::string_view gpu = {};     // model
  double gpu_memory_gib = 0;     // of one
  double gpu_peak_tflops = 0;    // of one: dense bf16 (fp16 where it has none), fp32 sums
  double gpu_link_gbyte_s = 0;   // all-reduce bus bandwidth inside a machine
  unsigned infiniband_nics = 0;  // 0: none
  double infiniband_gbit_s = 0;  // of one
  double ethernet_gbit_s = 0;
  double memory_gib = 0;  // of the host
};

// With or without "Standard_"; letter case does not matter.
std::optional<SkuFacts> find_sku(std::string_view name);

std::string names_of_skus();

// Bytes per second that one rank sends in a collective operation over all ranks.
double link_bytes_per_s(const SkuFacts& sku, bool between_machines);

}  // namespace muster
