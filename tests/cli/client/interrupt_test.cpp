#include "cli/client/follow.h"

#include <nlohmann/json.hpp>

#include <unistd.h>

#include <array>

#include "tests/catch.h"
#include "tests/cli/command_site.h"

using namespace muster;

namespace {

// Who runs the tests may have signals ignored (`nohup`, `command &`).
class UsualSignals {
 public:
  UsualSignals() : interrupt_(::signal(SIGINT, SIG_DFL)), term_(::signal(SIGTERM, SIG_DFL)) {}
  ~UsualSignals() {
    ::signal(SIGINT, interrupt_);
    ::signal(SIGTERM, term_);
  }
  UsualSignals(const UsualSignals&) = delete;
  UsualSignals& operator=(const UsualSignals&) = delete;

 private:
  void (*interrupt_)(int);
  void (*term_)(int);
};

// What is chosen by who types this and then nothing more.
InterruptChoice chosen_by(const std::string& typed) {
  std::array<int, 2> pipe{};
  REQUIRE(::pipe(pipe.data()) == 0);
  REQUIRE(::write(pipe[1], typed.data(), typed.size()) == static_cast<ssize_t>(typed.size()));
  ::close(pipe[1]);
  const int saved = ::dup(STDIN_FILENO);
  ::dup2(pipe[0], STDIN_FILENO);
  ::close(pipe[0]);
  InterruptChoice choice{};
  const CommandSite site;
  const SaidByVerb said = site.caught([&] {
    InterruptWatch watch;
    choice = ask_what_was_meant(watch);
    return 0;
  });
  ::dup2(saved, STDIN_FILENO);
  ::close(saved);
  CHECK_THAT(said.err, ContainsSubstring("[d]etach"));
  return choice;
}

}  // namespace

TEST_CASE("an interrupt is told once, and a termination for good") {
  const UsualSignals usual;
  InterruptWatch watch;
  CHECK_FALSE(watch.take());
  ::raise(SIGINT);
  CHECK(watch.take());
  CHECK_FALSE(watch.take());
  CHECK_FALSE(watch.is_terminated());
  ::raise(SIGTERM);
  CHECK(watch.is_terminated());
  CHECK(watch.take());
  CHECK_FALSE(watch.take());
  CHECK(watch.is_terminated());
}

TEST_CASE("a watch knows nothing of what came before it") {
  const UsualSignals usual;
  {
    const InterruptWatch earlier;
    ::raise(SIGINT);
    ::raise(SIGTERM);
  }
  InterruptWatch watch;
  CHECK_FALSE(watch.take());
  CHECK_FALSE(watch.is_terminated());
}

TEST_CASE("after a watch signals do what they did before, and one that is ignored stays so") {
  const auto handler_of = [](int number) {
    struct sigaction now {};
    ::sigaction(number, nullptr, &now);
    return now.sa_handler;
  };
  const UsualSignals usual;
  {
    const InterruptWatch watch;
    CHECK(handler_of(SIGINT) != SIG_DFL);
    CHECK(handler_of(SIGTERM) != SIG_DFL);
  }
  CHECK(handler_of(SIGINT) == SIG_DFL);
  CHECK(handler_of(SIGTERM) == SIG_DFL);
  ::signal(SIGINT, SIG_IGN);
  ::signal(SIGTERM, SIG_IGN);
  InterruptWatch watch;
  ::raise(SIGINT);
  ::raise(SIGTERM);
  CHECK_FALSE(watch.take());
  CHECK_FALSE(watch.is_terminated());
  CHECK(handler_of(SIGINT) == SIG_IGN);
  CHECK(handler_of(SIGTERM) == SIG_IGN);
}

TEST_CASE("Ctrl-C means what is typed then: detach, cancel, or go on") {
  CHECK(chosen_by("d\n") == InterruptChoice::detach);
  CHECK(chosen_by("Detach\n") == InterruptChoice::detach);
  CHECK(chosen_by("c\n") == InterruptChoice::cancel);
  CHECK(chosen_by("Cd\n") == InterruptChoice::cancel);
  CHECK(chosen_by("\n") == InterruptChoice::go_on);
  CHECK(chosen_by("xd\nc\n") == InterruptChoice::cancel);
  CHECK(chosen_by("q\n\n") == InterruptChoice::go_on);
  CHECK(chosen_by("") == InterruptChoice::detach);
  CHECK(chosen_by("c") == InterruptChoice::detach);
}
