#include "cli/client/interrupt.h"

#include <unistd.h>

#include <cerrno>

#include "cli/terminal/terminal.h"

namespace muster {

namespace {

volatile std::sig_atomic_t interrupts = 0;
volatile std::sig_atomic_t terminations = 0;

void count_signal(int number) {
  interrupts = 1;
  if (number == SIGTERM) terminations = 1;
}

// Ignored from outside (`nohup`, `command &`): stays so.
void count(int number, struct sigaction& before) {
  struct sigaction counting {};
  counting.sa_handler = count_signal;
  ::sigaction(number, &counting, &before);
  if (before.sa_handler == SIG_IGN) ::sigaction(number, &before, nullptr);
}

}  // namespace

// No SA_RESTART: a wait or a read in progress returns, so that the count is looked at.
InterruptWatch::InterruptWatch() {
  interrupts = 0;
  terminations = 0;
  count(SIGINT, before_);
  count(SIGTERM, before_termination_);
}

InterruptWatch::~InterruptWatch() {
  ::sigaction(SIGINT, &before_, nullptr);
  ::sigaction(SIGTERM, &before_termination_, nullptr);
}

bool InterruptWatch::is_terminated() const {
  return terminations != 0;
}

bool InterruptWatch::take() {
  if (interrupts == 0) return false;
  interrupts = 0;
  return true;
}

InterruptChoice ask_what_was_meant(InterruptWatch& watch) {
  write_all(Stream::err,
            "\n[d]etach and leave the job to muster, [c]ancel it, "
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
    if (byte != '\n') {
      if (first) answer = byte;
      first = false;
      continue;
    }
    if (answer == 'd' || answer == 'D') return InterruptChoice::detach;
    if (answer == 'c' || answer == 'C') return InterruptChoice::cancel;
    if (first) return InterruptChoice::go_on;
    write_all(Stream::err, "type d, c or [Enter]: ");
    answer = '\n';
    first = true;
  }
}

}  // namespace muster
