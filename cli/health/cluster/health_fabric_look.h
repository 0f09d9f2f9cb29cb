// Looks at an InfiniBand fabric: its tools asked, judged with what is remembered, and what that
// makes of each host. Blocks while a tool runs, which its deadline bounds.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "cli/health/health_report.h"
#include "cli/health/state.h"
#include "health/fabric/judges.h"
#include "health/fabric/tools.h"
#include "health/verdict/check_rules.h"

namespace muster {

struct FabricLookOptions {
  HealthProfile profile;
  std::optional<Fabric> golden;     // nothing: what is missing or cabled otherwise is not judged
  std::vector<std::string> checks;  // patterns; none: all
  std::string host;                 // where the tools run
  std::function<FabricToolAnswer(FabricTool)> ask;
  std::function<Time()> now;
};

struct FabricResult {
  HealthLook look;  // its reports name their hosts; no verdict
  std::size_t hosts = 0;
  std::map<std::string, NodeVerdict> verdicts;  // of hosts that there is something to say of
};
// No tool that was asked gave an answer.
bool is_nothing_known(const FabricResult& result);
// Of the worst host; unclear, when nothing is known.
HealthExit fabric_exit(const FabricResult& result);

class FabricLook {
 public:
  FabricLook(FabricLookOptions options, FabricState saved);
  FabricLook(const FabricLook&) = delete;  // its rules refer to its profile
  FabricLook& operator=(const FabricLook&) = delete;

  // Error counters are read by the first look alone: they are believed at once.
  void look();
  int looks() const { return looks_; }
  // Whether one more look decides about something that counts.
  bool is_open() const;
  FabricResult result() const;
  const FabricState& state() const { return state_; }

 private:
  using Findings = std::vector<std::pair<FabricFinding, double>>;  // and the time it took, in ms

  bool is_asked_for(std::string_view check) const;
  void look_at_links(Findings& findings);
  void look_at_errors(Findings& findings);
  void look_at_adapters(Findings& findings);
  void look_at_manager(Findings& findings);
  void remember(const Findings& findings);
  void forget_what_left(const Findings& findings);
  std::map<std::string, NodeVerdict> verdicts() const;

  FabricLookOptions options_;
  CheckRules rules_;
  FabricState state_;
  std::optional<Fabric> links_;  // of this look
  Findings at_once_;             // of the first look: what is believed at once
  Findings findings_;            // of the last one
  std::set<std::string> hosts_;
  int first_readings_ = 0;
  int looks_ = 0;
  std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
};

}  // namespace muster
