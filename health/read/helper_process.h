// A helper process and this end of its socket and of the memory it says things in (SharedStream).
// Born with them as descriptors 3 and 4, nothing else of ours, no signal blocked or ignored, in a
// session of its own; it asks the kernel itself to be killed with its owner. Nothing here blocks.
// What it sends means only that there is something to hear.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "scheduler/model/result.h"

namespace muster {

// Bytes from a helper to its owner through memory that both have, so that saying something costs no
// call of the system: a read of a node says hundreds of things, and each before it is done. What a
// helper said is there when it hangs or is dead, and when it said it. One writer, one reader; the
// reader believes nothing of what it finds.

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

// waitpid.
using WaitForProcess = std::function<pid_t(pid_t, int*, int)>;

class HelperProcess {
 public:
  static Result<HelperProcess> start(const std::vector<std::string>& argv);
  HelperProcess(HelperProcess&& other) noexcept;
  HelperProcess& operator=(HelperProcess&&) = delete;
  ~HelperProcess();  // of the socket alone

  pid_t pid() const { return pid_; }
  int socket() const { return socket_; }

  // To be sent as soon as the socket takes it.
  void send(std::string_view bytes) { unsent_ += bytes; }
  bool has_unsent() const { return !unsent_.empty(); }
  void send_on();

  enum class Heard { nothing, something, end, nonsense };
  // Appends what is there.
  Heard hear(std::string& bytes);
  // When it said what was heard last.
  SharedStream::Time said_at() const { return said_at_; }

 private:
  HelperProcess(int socket, SharedStream said) : socket_(socket), said_(std::move(said)) {}
  bool has_ended() const;

  pid_t pid_ = -1;
  int socket_;
  SharedStream said_;
  SharedStream::Time said_at_{};
  std::string unsent_;
};

// How a child ended ("died of signal 11"); nothing: it is still there. One that somebody else
// reaped "is gone".
std::optional<std::string> reaped(const WaitForProcess& wait, pid_t pid);

}  // namespace muster
