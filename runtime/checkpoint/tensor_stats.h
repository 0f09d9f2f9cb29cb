// Vitals of a plane: what can be said about its values without keeping them.
//
// They are taken from the memory that is about to be written, so that a later comparison covers the
// whole way to the disk and back. The hash of a range is a sum mod 2^64 over its elements, so
// hashes of disjoint ranges add up and equal states give equal sums at any number of ranks. Pure
// functions.
#pragma once

#include <cstdint>
#include <span>

namespace muster {

struct TensorStats {
  std::uint64_t nonfinite = 0;
  float absmax = 0;  // of the finite values
  double l2 = 0;     // square root of the sum of squares of the finite values
  std::uint64_t hash = 0;
  friend bool operator==(const TensorStats&, const TensorStats&) = default;
};

// Sum over i of splitmix64((bits(values[i]) | plane << 32) ^ (first + i) * 0x9E3779B97F4A7C15);
// `first` is the flat index of values[0]. splitmix64 is Steele, Lea, Flood 2014, its finalizer with
// the usual increment.
std::uint64_t plane_hash(std::uint64_t plane, std::uint64_t first, std::span<const float> values);

// Vitals of a plane that is seen part by part. Only l2 depends on how it was cut, in its last bits.
class TensorStatsSum {
 public:
  void add(std::uint64_t plane, std::uint64_t first, std::span<const float> values);
  TensorStats vitals() const;

 private:
  std::uint64_t nonfinite_ = 0;
  std::int32_t absmax_bits_ = 0;
  double squares_ = 0;
  std::uint64_t hash_ = 0;
};

TensorStats tensor_stats(std::uint64_t plane, std::uint64_t first, std::span<const float> values);

}  // namespace muster
