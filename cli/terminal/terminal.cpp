#include "cli/terminal/terminal.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>

#include "cli/terminal/escape.h"
#include "launcher/os/child.h"
#include "scheduler/model/exit_code.h"

namespace muster {

namespace {

// Empty: nothing is left behind.
std::string left_behind;

int descriptor(Stream stream) {
  return stream == Stream::out ? STDOUT_FILENO : STDERR_FILENO;
}

// All zero where it does not say.
winsize window_of(Stream stream) {
  winsize size{};
  return ::ioctl(descriptor(stream), TIOCGWINSZ, &size) == 0 ? size : winsize{};
}

// Returns when the bytes are to be dropped.
void give_up_writing(Stream stream, int error) {
  if (error == EPIPE || error == EIO) ::_exit(exit_code_of_signal(SIGPIPE));
  if (stream == Stream::err) return;
  const std::string text = std::string("muster: cannot write to standard output: ") +
                           std::strerror(error) + (left_behind.empty() ? "" : "; " + left_behind) +
                           "\n";
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, text.data(), text.size());
  ::_exit(static_cast<int>(ExitCode::internal));
}

}  // namespace

// The lowest free descriptor is taken, so in order. Opened the wrong way round on purpose: using it
// fails as a closed one does.
void hold_standard_descriptors() {
  for (const auto& [fd, flags] :
       {std::pair{STDIN_FILENO, O_WRONLY}, std::pair{STDOUT_FILENO, O_RDONLY},
        std::pair{STDERR_FILENO, O_WRONLY}}) {
    if (::fcntl(fd, F_GETFD) < 0 && ::open("/dev/null", flags) != fd) ::_exit(1);
  }
}

bool is_terminal(Stream stream) {
  return ::isatty(descriptor(stream)) == 1;
}

int terminal_width(Stream stream) {
  const int columns = window_of(stream).ws_col;
  return columns > 0 ? columns : 80;
}

int terminal_height(Stream stream) {
  const int rows = window_of(stream).ws_row;
  return rows > 0 ? rows : 24;
}

bool are_one_file() {
  struct stat out {}, err {};
  return ::fstat(STDOUT_FILENO, &out) == 0 && ::fstat(STDERR_FILENO, &err) == 0 &&
         out.st_dev == err.st_dev && out.st_ino == err.st_ino;
}

bool can_redraw(Stream stream) {
  return is_terminal(stream) && environment("TERM") != "dumb";
}

bool wants_color(ColorChoice choice, Stream stream) {
  if (choice != ColorChoice::automatic) return choice == ColorChoice::always;
  return environment("NO_COLOR").empty() && can_redraw(stream);
}

void write_all(Stream stream, std::string_view bytes) {
  const int fd = descriptor(stream);
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd, bytes.data(), bytes.size());
    if (written >= 0) {
      bytes.remove_prefix(static_cast<std::size_t>(written));
    } else if (errno == EAGAIN) {
      pollfd wanted{fd, POLLOUT, 0};
      ::poll(&wanted, 1, -1);
    } else if (errno != EINTR) {
      return give_up_writing(stream, errno);
    }
  }
}

void report_if_output_fails(std::string sentence) {
  left_behind = std::move(sentence);
}

std::string inked(std::string_view text, Ink ink, bool color) {
  if (!color || ink == Ink::plain) return std::string(text);
  constexpr std::array<const char*, 7> codes{"0", "31", "33", "32", "34", "2", "1"};
  const char* code = codes.at(static_cast<std::size_t>(ink));
  return std::string("\x1b[") + code + "m" + std::string(text) + "\x1b[0m";
}

void print_error(std::string_view sentence, const CommonOptions& common) {
  const bool color = wants_color(common.color, Stream::err);
  write_all(Stream::err, inked("muster: ", Ink::red, color) + printable(sentence) + "\n");
}

int print_error(std::string_view sentence, int code, const CommonOptions& common) {
  print_error(sentence, common);
  return code;
}

void notice(std::string_view sentence, const CommonOptions& common) {
  if (common.only_show_errors) return;
  const bool color = wants_color(common.color, Stream::err);
  write_all(Stream::err, inked("muster: ", Ink::dim, color) + printable(sentence) + "\n");
}

}  // namespace muster
