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

}  // namespace muster
