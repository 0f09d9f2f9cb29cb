// The one owner of a file descriptor in launcher/: closes it when it goes. Move-only, any thread.
// With it, the two loops that every caller of write and pread needs: they go on after a signal and
// after a part, and block as the descriptor does.
#pragma once

#include <sys/socket.h>
#include <sys/types.h>
#include <sys/un.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "scheduler/model/result.h"

namespace muster {

class Fd {
 public:
  Fd() = default;
  explicit Fd(int number) : number_(number) {}  // what open() and its like return; -1 owns nothing
  Fd(Fd&& other) noexcept : number_(other.release()) {}
  Fd& operator=(Fd&& other) noexcept;
  ~Fd() { reset(); }

  explicit operator bool() const { return number_ >= 0; }
  int get() const { return number_; }
  int release() { return std::exchange(number_, -1); }  // the caller closes it
  void reset();                                         // closes; errno stays

 private:
  int number_ = -1;
};

struct PipeEnds {
  Fd read_end;
  Fd write_end;
};

// Both closed on exec. Nothing: errno says why.
std::optional<PipeEnds> make_pipe();

// All of `bytes` at the file's position; false leaves errno.
bool write_all(int fd, std::string_view bytes);

// Up to `limit` bytes at `offset` into `out` (resized), fewer only at the end; false leaves errno.
bool read_at(int fd, std::int64_t offset, std::size_t limit, std::string& out);

// Unix sockets. Their address has room for 107 bytes, and a path may be longer: it is reached
// through its directory's descriptor.

sockaddr_un unix_address(const Fd& directory, const std::string& name);
// Connected to what listens at `path`; none: errno says why.
Fd connect_unix(const std::filesystem::path& path);
// Who is at the other end.
std::optional<ucred> peer_of(int socket);
std::optional<uid_t> peer_user(int socket);
// It is the user's own, or root's.
bool is_peer_of(int socket, uid_t user);

// The sentence for a failed system call: what was attempted, on which thing, what the system said.

inline Error system_error(const std::string& attempted, int error_number = errno) {
  std::string message = "could not " + attempted + ": " + std::strerror(error_number);
  if (error_number == ENOSPC || error_number == EDQUOT) {
    message += "; free space on this node or set another home";
  }
  return Error{std::move(message)};
}

}  // namespace muster
