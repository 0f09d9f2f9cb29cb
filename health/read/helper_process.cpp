#include "health/read/helper_process.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <thread>
#include <utility>

namespace muster {

namespace {

constexpr int helper_socket = 3;
constexpr int helper_stream = 4;
// Above both, so that neither is written over before it is copied.
constexpr int first_free = 5;

struct SpawnPlan {
  posix_spawn_file_actions_t files;
  posix_spawnattr_t attributes;
  SpawnPlan() {
    ::posix_spawn_file_actions_init(&files);
    ::posix_spawnattr_init(&attributes);
  }
  SpawnPlan(const SpawnPlan&) = delete;
  SpawnPlan& operator=(const SpawnPlan&) = delete;
  ~SpawnPlan() {
    ::posix_spawn_file_actions_destroy(&files);
    ::posix_spawnattr_destroy(&attributes);
  }
};

// 0, or why not.
int spawn_helper(const std::vector<std::string>& argv, int socket, int stream, pid_t& pid) {
  SpawnPlan plan;
  ::posix_spawn_file_actions_adddup2(&plan.files, socket, helper_socket);
  ::posix_spawn_file_actions_adddup2(&plan.files, stream, helper_stream);
  // One that the kernel does not give up must hold no pipe that somebody reads to its end.
  for (const int standard : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    ::posix_spawn_file_actions_addopen(&plan.files, standard, "/dev/null", O_RDWR, 0);
  ::posix_spawn_file_actions_addclosefrom_np(&plan.files, helper_stream + 1);
  sigset_t all;
  sigset_t none;
  ::sigfillset(&all);
  ::sigemptyset(&none);
  ::posix_spawnattr_setsigdefault(&plan.attributes, &all);
  ::posix_spawnattr_setsigmask(&plan.attributes, &none);
  ::posix_spawnattr_setflags(&plan.attributes,
                             POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSID);
  std::vector<char*> arguments;
  for (const std::string& argument : argv) arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  return ::posix_spawn(&pid, arguments[0], &plan.files, &plan.attributes, arguments.data(),
                       environ);
}

// The readings of a node of eight GPUs are a fifth of it.
constexpr std::size_t capacity = 1u << 20;
constexpr std::chrono::microseconds room_pause{200};

using Counter = std::atomic<std::uint64_t>;
static_assert(Counter::is_always_lock_free);

}  // namespace

Result<HelperProcess> HelperProcess::start(const std::vector<std::string>& argv) {
  check(!argv.empty(), "a helper needs a program");
  const auto failed = [&argv](int error) {
    return Error{"cannot start the helper " + argv[0] + ": " + std::strerror(error)};
  };
  auto said = SharedStream::create();
  if (!said) return said.error();
  std::array<int, 2> ends{-1, -1};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) return failed(errno);
  HelperProcess helper(ends[0], std::move(*said));
  ::fcntl(ends[0], F_SETFL, O_NONBLOCK);
  const int theirs = ::fcntl(ends[1], F_DUPFD_CLOEXEC, first_free);
  const int stream = ::fcntl(helper.said_.descriptor(), F_DUPFD_CLOEXEC, first_free);
  const bool has_both = theirs >= 0 && stream >= 0;
  const int error = has_both ? spawn_helper(argv, theirs, stream, helper.pid_) : EMFILE;
  for (const int end : {ends[1], theirs, stream}) {
    if (end >= 0) ::close(end);
  }
  if (error != 0) return failed(error);
  return helper;
}

HelperProcess::HelperProcess(HelperProcess&& other) noexcept
    : pid_(other.pid_),
      socket_(std::exchange(other.socket_, -1)),
      said_(std::move(other.said_)),
      said_at_(other.said_at_),
      unsent_(std::move(other.unsent_)) {}

HelperProcess::~HelperProcess() {
  if (socket_ >= 0) ::close(socket_);
}

void HelperProcess::send_on() {
  while (!unsent_.empty()) {
    const ssize_t sent = ::send(socket_, unsent_.data(), unsent_.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    // Its death is heard, not felt.
    if (sent < 0 && errno != EAGAIN) unsent_.clear();
    if (sent <= 0) return;
    unsent_.erase(0, static_cast<std::size_t>(sent));
  }
}

bool HelperProcess::has_ended() const {
  std::array<char, 4096> wakes{};
  ssize_t size = 0;
  while ((size = ::recv(socket_, wakes.data(), wakes.size(), 0)) < 0 && errno == EINTR) continue;
  return size == 0 || (size < 0 && errno != EAGAIN);  // more of them is heard the next time
}

// Its end is looked for first, so that all it said before is heard.
HelperProcess::Heard HelperProcess::hear(std::string& bytes) {
  const bool is_end = has_ended();
  const std::size_t before = bytes.size();
  const auto taken = said_.take(bytes);
  if (!taken.is_sound) return Heard::nonsense;
  if (bytes.size() == before) return is_end ? Heard::end : Heard::nothing;
  said_at_ = taken.was_full ? SharedStream::Time::clock::now() : taken.written_at;
  return Heard::something;
}

std::optional<std::string> reaped(const WaitForProcess& wait, pid_t pid) {
  int status = 0;
  const pid_t found = wait(pid, &status, WNOHANG);
  if (found == 0 || (found < 0 && errno == EINTR)) return std::nullopt;
  if (found < 0) return "is gone";
  if (WIFSIGNALED(status)) return "died of signal " + std::to_string(WTERMSIG(status));
  return "ended with code " + std::to_string(WEXITSTATUS(status));
}

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
