// Does what a drill asks for: kills, stops, unplugs, and undoes it in time. Everything still to be
// undone is undone when the hands go. One thread; blocking, each call for moments.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cli/drill_file.h"
#include "cli/drill_player.h"
#include "cli/drill_processes.h"
#include "cli/terminal/common_options.h"
#include "launcher/controller/store/home.h"
#include "launcher/sandbox/layout.h"
#include "launcher/wire/client_message.h"
#include "scheduler/model/result.h"

namespace muster {

class DrillHands {
 public:
  struct Place {
    const Home& home;
    JobId job;
    const CommonOptions& common;
    std::optional<SandboxLayout> sandbox;
  };
  DrillHands(Place place, DrillDice& dice) : place_(std::move(place)), dice_(dice) {}
  ~DrillHands();
  DrillHands(const DrillHands&) = delete;

  // What was hit, for a person. Nothing: there is nothing to hit now, later perhaps.
  Result<std::optional<std::string>> perform(const DrillAction& action, Milliseconds now);
  void undo_what_is_due(Milliseconds now);

 private:
  using Outcome = Result<std::optional<std::string>>;
  struct Undo {
    Milliseconds at;
    std::function<void()> run;
  };

  Outcome take(const KillProcess& it, Milliseconds now);
  Outcome take(const StopProcess& it, Milliseconds now);
  Outcome take(const PartitionHost& it, Milliseconds now);
  Outcome take(const HealHost& it, Milliseconds now);
  Outcome take(const FillDisk& it, Milliseconds now);
  Outcome take(const CrashHost& it, Milliseconds now);
  Outcome take(const BootHost& it, Milliseconds now);
  Outcome take(const DrainNode& it, Milliseconds now);
  Outcome take(const UndrainNode& it, Milliseconds now);
  Outcome take(const CancelDrilled& it, Milliseconds now);
  Outcome ask(const ToController& question, const std::string& done);
  Result<std::optional<DrillVictim>> find(const DrillTarget& target);
  Result<std::optional<DrillVictim>> find_controller();
  std::vector<DrillVictim> agents() const;
  Outcome on_host(Status (*act)(const SandboxLayout&, const std::string&), const std::string& host);

  Place place_;
  DrillDice& dice_;
  std::vector<Undo> undos_;
};

}  // namespace muster
