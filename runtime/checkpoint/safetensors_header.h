// The frame around the JSON header of a safetensors file.
#pragma once

#include <cstddef>
#include <string>

namespace muster {

// What stands before the data: the length of the header as u64 little-endian, then `json`, padded
// with blanks so that the data begins at a multiple of `alignment` bytes.
std::string safetensors_header(std::string json, std::size_t alignment);

}  // namespace muster
