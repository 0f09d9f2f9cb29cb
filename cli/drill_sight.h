// A job as a drill sees it: watched through the controller, which is started again when it is gone,
// as the next command of a person would do. One thread; blocking.
#pragma once

#include <chrono>
#include <memory>
#include <optional>

#include "cli/client/connection.h"
#include "cli/drill_player.h"
#include "cli/terminal/common_options.h"
#include "launcher/controller/store/home.h"
#include "launcher/controller/store/store.h"

namespace muster {

class DrillSight {
 public:
  // The job has been queued, now.
  DrillSight(const Home& home, JobId job, const CommonOptions& common);

  // From then on the view has the newest save; a look costs more.
  void watch_saves() { watches_saves_ = true; }
  // Waits for news, at most `pause`. The Error: the job cannot be followed any more.
  Status look(Milliseconds pause);
  const DrillView& view() const { return view_; }
  const std::optional<Ended>& ended() const { return ended_; }
  // Since the job was queued.
  Milliseconds elapsed() const;

 private:
  Status connect();
  void take(const FromController& message);
  void look_for_output();
  void look_for_saves();

  const Home& home_;
  JobId job_;
  const CommonOptions& common_;
  std::chrono::steady_clock::time_point begun_ = std::chrono::steady_clock::now();
  std::unique_ptr<Store> store_;
  std::optional<ControllerClient> client_;
  DrillView view_;
  bool watches_saves_ = false;
  std::string checkpoints_;  // of the rank last found, as this process sees it; empty: none
  std::optional<Ended> ended_;
  std::optional<Error> lost_;
  int failures_ = 0;  // to connect, in a row
};

}  // namespace muster
