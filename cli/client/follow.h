// Follows a job to its end: output, notices, progress, through restarts of the controller.
#pragma once

#include <csignal>
#include <optional>
#include <string>
#include <string_view>

#include "cli/client/log_follower.h"
#include "cli/terminal/common_options.h"
#include "cli/terminal/progress_line.h"
#include "cli/terminal/terminal.h"
#include "launcher/controller/store/home.h"
#include "launcher/wire/client_message.h"

namespace muster {

// What the process returns after Ctrl-C or SIGTERM: the job continues.
inline constexpr int interrupted_exit_code = 130;

struct FollowRequest {
  JobId job;
  LogSelection logs;
  Stream ranks_to = Stream::out;
  bool several_ranks = false;
  // Ctrl-C on a terminal asks whether to detach or cancel; otherwise it detaches at once, as
  // SIGTERM always does.
  bool may_cancel = false;
  std::string on_detach;  // instead of how to come back to the output
};

struct Followed {
  std::optional<Ended> ended;  // none: detached, or the controller cannot be reached
  int exit_code = 0;           // the job's, or why its end was not seen
};

Followed follow_job(const Home& home, const FollowRequest& request, const CommonOptions& common);

// What a person sees while a job is followed: the ranks' output, notices, and on a terminal one
// progress line below them that gives way to whatever else is written.
class FollowDisplay {
 public:
  // `ranks_to`: where the ranks' output goes; `several`: lines carry their rank.
  FollowDisplay(const CommonOptions& common, Stream ranks_to, bool several);
  ~FollowDisplay();

  void output(RankId rank, std::string_view bytes);
  void event(const JobEvent& event, Time now);
  void sentence(std::string_view text);
  // Draws the progress line anew when something changed or it is time to.
  void draw(Time now);
  // Everything said: unfinished lines are given, the progress line goes away.
  void finish();

 private:
  void erase();
  void turn_color_off();
  // Whether the ranks' output and the progress line are on one terminal.
  bool shares_screen() const;

  const CommonOptions& common_;
  Stream ranks_to_;
  OutputMerger ranks_;
  bool shows_progress_;
  ProgressNumbers numbers_;
  StepRate rate_;
  std::int64_t attempt_ = -1;
  std::string state_;
  Time state_since_;
  Time drawn_at_;
  std::string drawn_;  // empty: no progress line on the screen
};

// Ctrl-C and SIGTERM while a job is followed: counted instead of ending the process, for as long as
// this object lives. One at a time, main thread.
class InterruptWatch {
 public:
  InterruptWatch();
  ~InterruptWatch();
  InterruptWatch(const InterruptWatch&) = delete;
  InterruptWatch& operator=(const InterruptWatch&) = delete;

  // True once for each of them since the last call.
  bool take();
  // There was a SIGTERM: who sends it wants this process gone, and no question.
  bool is_terminated() const;

 private:
  struct sigaction before_ {};
  struct sigaction before_termination_ {};
};

// Asks on the terminal what Ctrl-C meant. A second Ctrl-C, or the end of input, means detach.
enum class InterruptChoice { go_on, detach, cancel };
InterruptChoice ask_what_was_meant(InterruptWatch& watch);

}  // namespace muster
