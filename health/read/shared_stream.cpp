#include "health/read/shared_stream.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <thread>
#include <utility>

namespace muster {

namespace {

// The readings of a node of eight GPUs are a fifth of it.
constexpr std::size_t capacity = 1u << 20;
constexpr std::chrono::microseconds room_pause{200};

using Counter = std::atomic<std::uint64_t>;
static_assert(Counter::is_always_lock_free);

}  // namespace

// Both count bytes since the beginning; each is changed by one side. A fresh one is all zeros.
struct SharedStream::Layout {
  alignas(64) Counter written;
  std::atomic<std::int64_t> written_at_ns;
  alignas(64) Counter taken;
  alignas(64) char bytes[capacity];
};

SharedStream::Layout* SharedStream::mapped(int descriptor) {
  void* memory = ::mmap(nullptr, sizeof(Layout), PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  return memory == MAP_FAILED ? nullptr : static_cast<Layout*>(memory);
}

Result<SharedStream> SharedStream::create() {
  const auto failed = [] {
    return Error{"no memory for what the helper says: " + std::string(std::strerror(errno))};
  };
  const int descriptor = ::memfd_create("muster-health", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (descriptor < 0) return failed();
  SharedStream stream(descriptor, nullptr);
  // Else one that shrinks it would kill who reads.
  constexpr int sealed = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
  if (::ftruncate(descriptor, sizeof(Layout)) != 0) return failed();
  if (::fcntl(descriptor, F_ADD_SEALS, sealed) != 0) return failed();
  stream.layout_ = mapped(descriptor);
  if (stream.layout_ == nullptr) return failed();
  return stream;
}

std::optional<SharedStream> SharedStream::open(int descriptor) {
  struct stat facts {};
  if (::fstat(descriptor, &facts) != 0 || facts.st_size != static_cast<off_t>(sizeof(Layout)))
    return std::nullopt;
  Layout* layout = mapped(descriptor);
  if (layout == nullptr) return std::nullopt;
  return SharedStream(descriptor, layout);
}

SharedStream::SharedStream(SharedStream&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)),
      layout_(std::exchange(other.layout_, nullptr)),
      position_(other.position_) {}

SharedStream::~SharedStream() {
  if (layout_ != nullptr) ::munmap(layout_, sizeof(Layout));
  if (descriptor_ >= 0) ::close(descriptor_);
}

void SharedStream::write(std::string_view bytes, const std::function<void()>& wake) {
  bool is_waiting = false;
  while (!bytes.empty()) {
    const std::uint64_t taken = layout_->taken.load(std::memory_order_acquire);
    const auto unread = static_cast<std::size_t>(position_ - taken);
    if (unread >= capacity) {
      if (!std::exchange(is_waiting, true)) wake();
      std::this_thread::sleep_for(room_pause);
      continue;
    }
    is_waiting = false;
    const auto at = static_cast<std::size_t>(position_ % capacity);
    const std::size_t size = std::min({bytes.size(), capacity - unread, capacity - at});
    std::memcpy(layout_->bytes + at, bytes.data(), size);
    bytes.remove_prefix(size);
    position_ += size;
    const auto now = std::chrono::steady_clock::now().time_since_epoch();
    layout_->written_at_ns.store(std::chrono::nanoseconds(now).count(), std::memory_order_relaxed);
    layout_->written.store(position_, std::memory_order_release);
    if (unread <= capacity / 2 && unread + size > capacity / 2) wake();
  }
}

SharedStream::Taken SharedStream::take(std::string& bytes) {
  const std::uint64_t written = layout_->written.load(std::memory_order_acquire);
  const std::uint64_t unread = written - position_;
  if (unread > capacity) return {false, false, {}};
  const auto at = static_cast<std::size_t>(position_ % capacity);
  const auto first = std::min(static_cast<std::size_t>(unread), capacity - at);
  bytes.append(layout_->bytes + at, first);
  bytes.append(layout_->bytes, static_cast<std::size_t>(unread) - first);
  const std::chrono::nanoseconds time(layout_->written_at_ns.load(std::memory_order_relaxed));
  position_ = written;
  layout_->taken.store(position_, std::memory_order_release);
  return {true, unread == capacity, Time(std::chrono::duration_cast<Time::duration>(time))};
}

}  // namespace muster
