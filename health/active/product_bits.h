// Checksums of the same product, computed again and again by each GPU or processor, and known
// beforehand by the host: who computes another one than the rest, or than itself at other times.
// Nothing of it can be tolerated: the product is exact (product_sum.h). Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "health/model/performance.h"

namespace muster {

inline constexpr const char* corruption_metric = "sdc_wrong_products";

struct ProductBits {
  std::string device;  // empty: the host
  std::uint64_t bits = 0;
  int times = 1;  // that it came to them
};
// Sixteen GPUs, each some thousand times.
inline constexpr std::size_t product_bits_max = 65'536;

// Of each device one sample: how many of its products are wrong. Which is the right one is told by
// more than half of those that always come to the same; where there are two of a mind that differ,
// nobody is named: the fault is the node's, and the two are unknown.
std::vector<PerformanceSample> judge_product_bits(std::span<const ProductBits> all);

}  // namespace muster
