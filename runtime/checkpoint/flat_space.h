// The flat space: all parameters of a model as one line of elements, independent of the number of
// ranks.
//
// Parameters stand in model order, each at a multiple of `align` elements; the end is padded to
// `align`, never to the number of ranks. Three planes hold one F32 value per element: master,
// exp_avg, exp_avg_sq. With B = numel / align blocks, rank r of R owns blocks [floor(r B / R),
// floor((r+1) B / R)). Plain data.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace muster {

// align x 4 B is a multiple of 4096 B, so every block of a plane can start on a page.
inline constexpr std::uint64_t flat_align_elements = 1024;
inline constexpr std::size_t flat_planes = 3;
inline constexpr std::array<const char*, flat_planes> flat_plane_names{"master", "exp_avg",
                                                                       "exp_avg_sq"};
// Larger spaces are refused by readers: offsets in bytes then always fit 63 bits.
inline constexpr std::uint64_t flat_numel_limit = std::uint64_t{1} << 48;

// Elements [lo, hi) of the flat space.
struct ElementRange {
  std::uint64_t lo = 0;
  std::uint64_t hi = 0;
  std::uint64_t size() const { return hi - lo; }
  friend bool operator==(const ElementRange&, const ElementRange&) = default;
};

struct FlatParameter {
  std::string name;
  std::uint64_t offset = 0;  // elements
  std::vector<std::uint64_t> shape;
  bool decay = false;  // weight decay applies
  std::uint64_t size() const;
  friend bool operator==(const FlatParameter&, const FlatParameter&) = default;
};

struct FlatSpace {
  std::uint64_t numel = 0;  // padded, a multiple of align
  std::uint64_t align = flat_align_elements;
  std::vector<FlatParameter> params;
  friend bool operator==(const FlatSpace&, const FlatSpace&) = default;

  // Places one more parameter behind the last and returns its index.
  std::size_t add(std::string name, std::vector<std::uint64_t> shape, bool decay);
};

// What rank `rank` of `ranks` owns, as the formula above says.
ElementRange owned_elements(const FlatSpace& space, std::size_t rank, std::size_t ranks);

// FNV-1a, 64 bit: offset basis 14695981039346656037 (or `basis`), prime 1099511628211.
std::uint64_t fnv1a64(std::string_view text, std::uint64_t basis = 14695981039346656037ull);

// 64-bit hash of everything above except values: equal hashes mean that raw offsets may be reused.
std::uint64_t layout_hash(const FlatSpace& space);

// Vitals of a plane: what can be said about its values without keeping them.
//
// They are taken from the memory that is about to be written, so that a later comparison covers the
// whole way to the disk and back. The hash of a range is a sum mod 2^64 over its elements, so
// hashes of disjoint ranges add up and equal states give equal sums at any number of ranks. Pure
// functions.
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
