// What a person sees while a job is followed: the ranks' output, notices, and on a terminal one
// progress line below them that gives way to whatever else is written.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "cli/client/output_merger.h"
#include "cli/terminal/common_options.h"
#include "cli/terminal/progress_line.h"
#include "cli/terminal/terminal.h"
#include "launcher/wire/client_message.h"

namespace muster {

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

}  // namespace muster
