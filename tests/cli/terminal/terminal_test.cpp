// What is known of a terminal, and what a person sees on it while a job is followed.
#include "cli/terminal/terminal.h"

#include <nlohmann/json.hpp>

#include "cli/client/follow.h"
#include "tests/catch.h"
#include "tests/cli/command_site.h"
#include "tests/cli/pty.h"
#include "tests/skip.h"

using namespace muster;

namespace {

constexpr const char* no_terminal = "this system has no pseudo-terminal to give";
constexpr const char* erased = "\r\x1b[K";
const Time start = from_ms(1'800'000'000'000);

Time after_ms(std::int64_t ms) {
  return start + Milliseconds{ms};
}

JobEvent state_event(const char* state, const char* sentence = "") {
  JobEvent event;
  event.state = state;
  event.sentence = sentence;
  return event;
}

}  // namespace

TEST_CASE("a terminal is as large as it says, and 80 by 24 when it does not say") {
  const Pty pty;
  if (!pty.is_open()) return skip_test(no_terminal);
  CHECK(is_terminal(Stream::err));
  pty.resize(50, 132);
  CHECK(terminal_height(Stream::err) == 50);
  CHECK(terminal_width(Stream::err) == 132);
  pty.resize(0, 0);
  CHECK(terminal_height(Stream::err) == 24);
  CHECK(terminal_width(Stream::err) == 80);
  pty.resize(1, 1);
  CHECK(terminal_height(Stream::err) == 1);
  CHECK(terminal_width(Stream::err) == 1);
}

TEST_CASE("a file is no terminal: 80 by 24, no colour unless it is asked for, nothing redrawn") {
  const CommandSite site;
  site.caught([] {
    CHECK_FALSE(is_terminal(Stream::err));
    CHECK(terminal_height(Stream::err) == 24);
    CHECK(terminal_width(Stream::err) == 80);
    CHECK_FALSE(can_redraw(Stream::err));
    CHECK_FALSE(wants_color(ColorChoice::automatic, Stream::err));
    CHECK(wants_color(ColorChoice::always, Stream::err));
    return 0;
  });
}

TEST_CASE("a terminal gets colour unless it is dumb, or the user wants none") {
  const Pty pty;
  if (!pty.is_open()) return skip_test(no_terminal);
  const char* const before = std::getenv("NO_COLOR");
  const std::string kept = before == nullptr ? "" : before;
  ::setenv("NO_COLOR", "", 1);
  CHECK(wants_color(ColorChoice::automatic, Stream::err));
  CHECK_FALSE(wants_color(ColorChoice::never, Stream::err));
  CHECK(can_redraw(Stream::err));
  ::setenv("NO_COLOR", "1", 1);
  CHECK_FALSE(wants_color(ColorChoice::automatic, Stream::err));
  CHECK(wants_color(ColorChoice::always, Stream::err));
  ::setenv("NO_COLOR", "", 1);
  ::setenv("TERM", "dumb", 1);
  CHECK_FALSE(can_redraw(Stream::err));
  CHECK_FALSE(wants_color(ColorChoice::automatic, Stream::err));
  ::unsetenv("NO_COLOR");
  if (!kept.empty()) ::setenv("NO_COLOR", kept.c_str(), 1);
}

TEST_CASE("the progress line goes away with the display, and nothing where none was drawn") {
  const Pty pty;
  if (!pty.is_open()) return skip_test(no_terminal);
  const CommonOptions common;
  {
    FollowDisplay display(common, Stream::err, false);
    display.event(state_event("Running"), start);
    display.draw(after_ms(42'000));
    const std::string line = pty.said();
    CHECK(line.starts_with("\rRunning 42s"));
    CHECK(line.ends_with("\x1b[K"));
  }
  CHECK(pty.said() == erased);
  { FollowDisplay display(common, Stream::err, false); }
  CHECK(pty.said().empty());
}

TEST_CASE("the progress line gives way to sentences and output, and is drawn anew") {
  const Pty pty;
  if (!pty.is_open()) return skip_test(no_terminal);
  CommonOptions common;
  common.color = ColorChoice::never;
  FollowDisplay display(common, Stream::err, false);
  display.draw(start);
  CHECK(pty.said().empty());  // there is nothing to say yet
  display.event(state_event("Running"), start);
  display.draw(after_ms(1000));
  display.draw(after_ms(1050));  // too soon
  CHECK(pty.said() == "\rRunning 1.0s\x1b[K");
  display.event(state_event("Running", "it restarts"), after_ms(1100));
  CHECK(pty.said() == erased + std::string("muster: it restarts\n"));
  display.draw(after_ms(2000));
  CHECK(pty.said() == "\rRunning 2.0s\x1b[K");
  display.event(state_event("Queued"), after_ms(2500));
  display.draw(after_ms(3000));
  CHECK(pty.said() == "\rQueued 0.5s\x1b[K");
  display.output(RankId{0}, "step 1\n");
  CHECK(pty.said() == erased + std::string("step 1\n"));
  display.output(RankId{0}, "half a line");
  display.draw(after_ms(4000));
  CHECK(pty.said() == "half a line");
  display.finish();
  CHECK(pty.said() == "\n");
}

TEST_CASE("who wants only errors sees neither progress nor sentences") {
  const Pty pty;
  if (!pty.is_open()) return skip_test(no_terminal);
  CommonOptions common;
  common.only_show_errors = true;
  FollowDisplay display(common, Stream::err, false);
  display.event(state_event("Running", "it restarts"), start);
  display.draw(after_ms(1000));
  notice("a note", common);
  CHECK(pty.said().empty());
  print_error("an error", common);
  CHECK_THAT(pty.said(), ContainsSubstring("an error"));
}
