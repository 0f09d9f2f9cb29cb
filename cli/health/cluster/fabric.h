// `muster health fabric`: the InfiniBand fabric as the host that it is typed on sees it. Its tools
// are asked, judged with what is remembered, and that makes something of each host. Blocks while a
// tool runs, which its deadline bounds.
//
// The result for machines:
//   ts host profile looks took_ms                 host: where the tools ran
//   state: healthy|unclear|drained
//   hosts: {HOST: verdict}                        those that there is something to say of; "": what
//                                                 is no host's
//   counts: {pass, fail, unknown, first_readings}
//   findings: [one as a line of the form jsonl]
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "cli/health/result.h"
#include "cli/health/run.h"
#include "cli/health/state.h"
#include "cli/terminal/common_options.h"
#include "health/fabric/judges.h"
#include "health/fabric/tools.h"
#include "health/verdict/streaks.h"
#include "scheduler/text/clock.h"

namespace muster {

struct HealthFabricOptions : HealthKept {
  std::string profile;              // a name or a file; empty: none
  std::string golden;               // a file; empty: none
  std::string save_golden;          // write this one, and judge nothing
  std::string hca;                  // "mlx5_0:1"; empty: the tools' own choice
  std::vector<std::string> checks;  // patterns; none: all
  std::optional<Milliseconds> deadline;
  bool quick = false;
};

int run_health_fabric(const HealthFabricOptions& options, const CommonOptions& common);

struct FabricLookOptions {
  HealthProfile profile;
  std::optional<Fabric> golden;     // nothing: what is missing or cabled otherwise is not judged
  std::vector<std::string> checks;  // patterns; none: all
  std::string host;                 // where the tools run
  std::function<FabricToolAnswer(FabricTool)> ask;
  std::function<Time()> now;
};

struct FabricResult {
  HostHealth look;  // of the host where the tools ran; what is told names its host
  std::size_t hosts = 0;
  std::map<std::string, VerdictReport> verdicts;  // of hosts that there is something to say of
};
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

std::string fabric_text(const FabricResult& result, const HealthTextForm& form);
Document fabric_document(const FabricResult& result);

}  // namespace muster
