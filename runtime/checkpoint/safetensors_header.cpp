#include "runtime/checkpoint/safetensors_header.h"

#include <bit>
#include <cstdint>
#include <cstring>

static_assert(std::endian::native == std::endian::little, "the length is little-endian");

namespace muster {

std::string safetensors_header(std::string json, std::size_t alignment) {
  std::uint64_t length = 0;
  const std::size_t data_at = (sizeof length + json.size() + alignment - 1) / alignment * alignment;
  length = data_at - sizeof length;
  json.resize(length, ' ');
  std::string bytes(sizeof length, '\0');
  std::memcpy(bytes.data(), &length, sizeof length);
  return bytes + json;
}

}  // namespace muster
