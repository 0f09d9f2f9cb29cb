// Memory that starts at a page, as O_DIRECT wants it.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <span>

#include "runtime/checkpoint/file/write_engine.h"

namespace muster {

struct FreeMemory {
  void operator()(char* memory) const { std::free(memory); }
};
using AlignedBuffer = std::unique_ptr<char, FreeMemory>;

inline std::size_t direct_length(std::size_t bytes) {
  return (bytes + direct_alignment_bytes - 1) / direct_alignment_bytes * direct_alignment_bytes;
}

inline bool is_direct(std::span<const char> piece) {
  return reinterpret_cast<std::uintptr_t>(piece.data()) % direct_alignment_bytes == 0 &&
         piece.size() % direct_alignment_bytes == 0;
}

inline AlignedBuffer make_aligned_buffer(std::size_t bytes) {
  AlignedBuffer buffer(
      static_cast<char*>(std::aligned_alloc(direct_alignment_bytes, direct_length(bytes))));
  if (!buffer) throw std::bad_alloc();
  return buffer;
}

// A copy of `piece`, padded with zeros.
inline std::span<const char> aligned_copy(std::span<const char> piece, AlignedBuffer& buffer) {
  const std::size_t length = direct_length(piece.size());
  std::memcpy(buffer.get(), piece.data(), piece.size());
  std::memset(buffer.get() + piece.size(), 0, length - piece.size());
  return {buffer.get(), length};
}

}  // namespace muster
