#include "runtime/memory/page_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <new>

namespace muster {
namespace {

constexpr std::size_t huge_page_bytes = 2 << 20;
constexpr std::size_t page_bytes = 4096;

}  // namespace

PageMemory::PageMemory(std::size_t floats)
    : bytes_(std::max<std::size_t>(floats * sizeof(float), 1) + huge_page_bytes) {
  memory_ = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory_ == MAP_FAILED) throw std::bad_alloc();
  (void)::madvise(memory_, bytes_, MADV_HUGEPAGE);  // small pages do as well
  const auto address = reinterpret_cast<std::uintptr_t>(memory_);
  const std::uintptr_t begin = (address + huge_page_bytes - 1) / huge_page_bytes * huge_page_bytes;
  char* first = static_cast<char*>(memory_) + (begin - address);
  for (std::size_t at = 0; at < floats * sizeof(float); at += page_bytes) {
    const_cast<volatile char*>(first)[at] = 0;
  }
  floats_ = {reinterpret_cast<float*>(first), floats};
}

PageMemory::~PageMemory() {
  ::munmap(memory_, bytes_);
}

}  // namespace muster
