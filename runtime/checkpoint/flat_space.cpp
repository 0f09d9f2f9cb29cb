#include "runtime/checkpoint/flat_space.h"

namespace muster {

std::uint64_t FlatParameter::size() const {
  std::uint64_t product = 1;
  for (const std::uint64_t extent : shape) product *= extent;
  return product;
}

std::size_t FlatSpace::add(std::string name, std::vector<std::uint64_t> shape, bool decay) {
  params.push_back({std::move(name), numel, std::move(shape), decay});
  const std::uint64_t end = numel + params.back().size();
  numel = (end + align - 1) / align * align;
  return params.size() - 1;
}

ElementRange owned_elements(const FlatSpace& space, std::size_t rank, std::size_t ranks) {
  const std::uint64_t blocks = space.numel / space.align;
  return {rank * blocks / ranks * space.align, (rank + 1) * blocks / ranks * space.align};
}

std::uint64_t fnv1a64(std::string_view text, std::uint64_t basis) {
  std::uint64_t hash = basis;
  for (const char letter : text) {
    hash ^= static_cast<unsigned char>(letter);
    hash *= 1099511628211ull;
  }
  return hash;
}

std::uint64_t layout_hash(const FlatSpace& space) {
  std::string text =
      "numel " + std::to_string(space.numel) + " align " + std::to_string(space.align);
  for (const char* plane : flat_plane_names) text += std::string("\nplane ") + plane + " F32";
  for (const FlatParameter& param : space.params) {
    text += "\nparam " + param.name + " at " + std::to_string(param.offset) + " shape";
    for (const std::uint64_t extent : param.shape) text += " " + std::to_string(extent);
    if (param.decay) text += " decay";
  }
  return fnv1a64(text);
}

}  // namespace muster
