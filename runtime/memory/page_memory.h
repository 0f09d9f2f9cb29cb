// A large array of floats that begins at a page, in huge pages where the system has them, all of it
// touched: using it later never waits for the system to find a page. Zeros at first.
#pragma once

#include <cstddef>
#include <span>

namespace muster {

class PageMemory {
 public:
  // Throws std::bad_alloc.
  explicit PageMemory(std::size_t floats);
  ~PageMemory();
  PageMemory(const PageMemory&) = delete;
  PageMemory& operator=(const PageMemory&) = delete;

  std::span<float> floats() { return floats_; }
  std::span<const float> floats() const { return floats_; }

 private:
  void* memory_ = nullptr;
  std::size_t bytes_;
  std::span<float> floats_;
};

}  // namespace muster
