// A terminal of a test's own in the place of standard error, while it lives.
#pragma once

#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <string>

#include "tests/catch.h"

namespace muster {

class Pty {
 public:
  Pty() {
    master_ = ::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (master_ < 0 || ::grantpt(master_) != 0 || ::unlockpt(master_) != 0) return;
    const char* name = ::ptsname(master_);
    if (name != nullptr) slave_ = ::open(name, O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (slave_ < 0) return;
    termios raw{};
    ::tcgetattr(slave_, &raw);
    ::cfmakeraw(&raw);
    ::tcsetattr(slave_, TCSANOW, &raw);
    saved_ = ::dup(STDERR_FILENO);
    ::dup2(slave_, STDERR_FILENO);
    const char* term = std::getenv("TERM");
    if (term != nullptr) term_ = term;
    ::setenv("TERM", "xterm", 1);
  }
  ~Pty() {
    if (saved_ >= 0) {
      ::dup2(saved_, STDERR_FILENO);
      ::close(saved_);
      if (term_.empty()) {
        ::unsetenv("TERM");
      } else {
        ::setenv("TERM", term_.c_str(), 1);
      }
    }
    if (slave_ >= 0) ::close(slave_);
    if (master_ >= 0) ::close(master_);
  }
  Pty(const Pty&) = delete;
  Pty& operator=(const Pty&) = delete;

  // Not where the system has no terminals to give.
  bool is_open() const { return saved_ >= 0; }

  void resize(int rows, int columns) const {
    winsize size{};
    size.ws_row = static_cast<unsigned short>(rows);
    size.ws_col = static_cast<unsigned short>(columns);
    ::ioctl(slave_, TIOCSWINSZ, &size);
  }

  // All that was written to it since the last call.
  std::string said() const {
    constexpr std::string_view end = "\x04";
    if (::write(slave_, end.data(), end.size()) != 1) return "cannot write";
    std::string text;
    std::array<char, 4096> bytes;
    pollfd readable{master_, POLLIN, 0};
    while (!text.ends_with(end) && ::poll(&readable, 1, 5000) > 0) {
      const ssize_t got = ::read(master_, bytes.data(), bytes.size());
      if (got <= 0) break;
      text.append(bytes.data(), static_cast<std::size_t>(got));
    }
    return text.substr(0, text.size() - (text.ends_with(end) ? end.size() : 0));
  }

 private:
  int master_ = -1;
  int slave_ = -1;
  int saved_ = -1;
  std::string term_;
};

}  // namespace muster
