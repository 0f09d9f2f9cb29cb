#include "cli/client/follow_display.h"

#include "cli/terminal/escape.h"
#include "scheduler/text/duration.h"

namespace muster {

namespace {

// Often enough to look alive, seldom enough for a slow terminal over ssh.
constexpr Milliseconds redraw_interval{100};

OutputMerger::Style style_of(const CommonOptions& common, Stream stream, bool several) {
  return {several, is_terminal(stream), wants_color(common.color, stream)};
}

}  // namespace

FollowDisplay::FollowDisplay(const CommonOptions& common, Stream ranks_to, bool several)
    : common_(common),
      ranks_to_(ranks_to),
      ranks_(style_of(common, ranks_to, several),
             [ranks_to](std::string_view bytes) { write_all(ranks_to, bytes); }),
      shows_progress_(can_redraw(Stream::err) && !common.only_show_errors) {}

FollowDisplay::~FollowDisplay() {
  erase();
}

// Whether the ranks' output and the progress line are on one terminal.
bool FollowDisplay::shares_screen() const {
  return ranks_to_ == Stream::err || is_terminal(ranks_to_);
}

void FollowDisplay::erase() {
  if (drawn_.empty()) return;
  write_all(Stream::err, "\r\x1b[K");
  drawn_.clear();
}

void FollowDisplay::turn_color_off() {
  if (shares_screen() && ranks_.leaves_color()) write_all(Stream::err, "\x1b[0m");
}

void FollowDisplay::output(RankId rank, std::string_view bytes) {
  if (shares_screen()) erase();
  ranks_.feed(rank, bytes);
}

void FollowDisplay::sentence(std::string_view text) {
  if (common_.only_show_errors) return;
  erase();
  turn_color_off();
  if (shares_screen() && !ranks_.at_line_start()) write_all(Stream::err, "\n");
  notice(text, common_);
}

void FollowDisplay::event(const JobEvent& event, Time now) {
  if (event.attempt != attempt_) {
    numbers_ = {};
    rate_ = {};
    attempt_ = event.attempt;
  }
  const bool changed = event.state != state_;
  if (changed) {
    state_ = event.state;
    state_since_ = now;
  }
  if (!event.metrics.empty()) read_metrics_line(event.metrics, numbers_);
  if (event.step) numbers_.step = event.step;
  if (numbers_.step) rate_.saw(*numbers_.step, now);
  if (!event.sentence.empty()) sentence(event.sentence);
}

void FollowDisplay::draw(Time now) {
  if (!shows_progress_ || now - drawn_at_ < redraw_interval) return;
  if (shares_screen() && !ranks_.at_line_start()) return;
  drawn_at_ = now;
  const std::string label = state_ + " " + elapsed_text(now - state_since_);
  const std::string line = printable(
      progress_line(label, numbers_, rate_.time_left(numbers_), terminal_width(Stream::err)));
  if (line == drawn_ || state_.empty()) return;
  turn_color_off();
  write_all(Stream::err, "\r" + line + "\x1b[K");
  drawn_ = line;
}

void FollowDisplay::finish() {
  erase();
  ranks_.finish();
  if (shows_progress_ && shares_screen() && !ranks_.at_line_start()) write_all(Stream::err, "\n");
}

}  // namespace muster
