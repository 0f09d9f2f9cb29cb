#include "cli/terminal/raw_terminal.h"

#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <termios.h>
#include <unistd.h>

#include <csignal>
#include <utility>

namespace muster {

namespace {

// Those that end a process, but for the one that cannot be caught.
constexpr int ending_signals[] = {SIGHUP,  SIGINT,  SIGQUIT, SIGTERM, SIGPIPE, SIGALRM, SIGUSR1,
                                  SIGUSR2, SIGABRT, SIGSEGV, SIGBUS,  SIGFPE,  SIGILL};

termios as_before;

// In the background too, where a terminal's settings are refused with this signal.
void restore() {
  ::signal(SIGTTOU, SIG_IGN);
  ::tcsetattr(STDIN_FILENO, TCSANOW, &as_before);
  ::signal(SIGTTOU, SIG_DFL);
}

void restore_and_end(int signal) {
  restore();
  ::raise(signal);  // its handler is gone: it ends the process as if nobody had looked
}

void set_handlers(void (*handler)(int), unsigned flags) {
  for (const int signal : ending_signals) {
    struct sigaction now {};
    if (::sigaction(signal, nullptr, &now) != 0 || now.sa_handler == SIG_IGN) continue;
    now = {};
    now.sa_handler = handler;
    now.sa_flags = static_cast<int>(flags);
    ::sigaction(signal, &now, nullptr);
  }
}

sigset_t size_changes() {
  sigset_t signals;
  ::sigemptyset(&signals);
  ::sigaddset(&signals, SIGWINCH);
  return signals;
}

}  // namespace

WindowSize input_size() {
  winsize size{};
  ::ioctl(STDIN_FILENO, TIOCGWINSZ, &size);
  return {size.ws_row, size.ws_col};
}

RawTerminal::RawTerminal() {
  const sigset_t changes = size_changes();
  ::sigprocmask(SIG_BLOCK, &changes, nullptr);
  changes_ = Fd(::signalfd(-1, &changes, SFD_CLOEXEC | SFD_NONBLOCK));
  ::tcgetattr(STDIN_FILENO, &as_before);
  set_handlers(restore_and_end, SA_RESETHAND);
  termios raw = as_before;
  ::cfmakeraw(&raw);
  ::tcsetattr(STDIN_FILENO, TCSANOW, &raw);
}

RawTerminal::~RawTerminal() {
  leave();
}

void RawTerminal::leave() {
  if (!std::exchange(is_raw_, false)) return;
  restore();
  set_handlers(SIG_DFL, 0);
}

WindowSize RawTerminal::resized() {
  signalfd_siginfo seen{};
  while (::read(changes_.get(), &seen, sizeof seen) > 0) {
  }
  return input_size();
}

}  // namespace muster
