// Bytes from a helper to its owner through memory that both have, so that saying something costs no
// call of the system: a read of a node says hundreds of things, and each before it is done. What a
// helper said is there when it hangs or is dead, and when it said it. One writer, one reader; the
// reader believes nothing of what it finds.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "scheduler/model/result.h"

namespace muster {

class SharedStream {
 public:
  using Time = std::chrono::steady_clock::time_point;

  static Result<SharedStream> create();
  // Of the one that another process created. Nothing: it is none.
  static std::optional<SharedStream> open(int descriptor);
  SharedStream(SharedStream&& other) noexcept;
  SharedStream& operator=(SharedStream&&) = delete;
  ~SharedStream();

  int descriptor() const { return descriptor_; }

  // `wake` tells the reader that there is much, and that there is no more room, which is waited
  // for.
  void write(std::string_view bytes, const std::function<void()>& wake);

  struct Taken {
    bool is_sound = true;   // false: no writer in its right mind leaves it so
    bool was_full = false;  // its writer may have waited for room since then
    Time written_at{};      // the last of it
  };
  // Appends what is there.
  Taken take(std::string& bytes);

 private:
  struct Layout;
  SharedStream(int descriptor, Layout* layout) : descriptor_(descriptor), layout_(layout) {}
  static Layout* mapped(int descriptor);

  int descriptor_;
  Layout* layout_;
  std::uint64_t position_ = 0;  // of this side, which the other one cannot spoil
};

}  // namespace muster
