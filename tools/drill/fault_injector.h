// Injects the faults that a drill asks for: kills, stops, disconnects, and undoes it in time.
// Everything still to be undone is undone when the injector goes. One thread; blocking, each call
// for moments.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cli/terminal/common_options.h"
#include "launcher/controller/store/home.h"
#include "launcher/wire/client_message.h"
#include "scheduler/model/result.h"
#include "tools/drill/file.h"
#include "tools/drill/player.h"
#include "tools/drill/processes.h"
#include "tools/sandbox/layout.h"

namespace muster {

class FaultInjector {
 public:
  struct Place {
    const Home& home;
    JobId job;
    const CommonOptions& common;
    std::optional<SandboxLayout> sandbox;
  };
  FaultInjector(Place place, DrillDice& dice) : place_(std::move(place)), dice_(dice) {}
  ~FaultInjector();
  FaultInjector(const FaultInjector&) = delete;

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
