#include "cli/interrupt.h"

#include <unistd.h>

#include <cerrno>

#include "cli/terminal.h"

namespace muster {

namespace {

volatile std::sig_atomic_t interrupts = 0;

void count_interrupt(int) {
  interrupts = interrupts + 1;
}

}  // namespace

// No SA_RESTART: a wait or a read in progress returns, so that the count is looked at.
InterruptWatch::InterruptWatch() {
  struct sigaction counting {};
  counting.sa_handler = count_interrupt;
  interrupts = 0;
  ::sigaction(SIGINT, &counting, &before_);
  // Ignored from outside (`nohup`, `command &`): stays so.
  if (before_.sa_handler == SIG_IGN) ::sigaction(SIGINT, &before_, nullptr);
}

InterruptWatch::~InterruptWatch() {
  ::sigaction(SIGINT, &before_, nullptr);
}

bool InterruptWatch::take() {
  if (interrupts == 0) return false;
  interrupts = 0;
  return true;
}

InterruptChoice ask_what_was_meant(InterruptWatch& watch) {
  write_all(Stream::err,
            "\nThe job is running. [d]etach and leave it running, [c]ancel it, "
            "or [Enter] to go on? (Ctrl-C again: detach) ");
  char answer = '\n';
  bool first = true;
  while (true) {
    char byte = 0;
    const ssize_t got = ::read(STDIN_FILENO, &byte, 1);
    const bool interrupted = watch.take();
    if (interrupted || got == 0 || (got < 0 && errno != EINTR)) {
      write_all(Stream::err, "\n");
      return InterruptChoice::detach;
    }
    if (got < 0) continue;
    if (byte == '\n') break;
    if (first) answer = byte;
    first = false;
  }
  if (answer == 'd' || answer == 'D') return InterruptChoice::detach;
  if (answer == 'c' || answer == 'C') return InterruptChoice::cancel;
  return InterruptChoice::go_on;
}

}  // namespace muster
