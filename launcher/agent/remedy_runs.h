// Commands of the site that reset or reboot this node, asked for by the controller: each once,
// whatever is asked again, in a child that can be killed. How it ended is kept and said again to
// whoever asks. Owned by Agent, on its thread.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>

#include "launcher/agent/child_tasks.h"
#include "launcher/agent/rank_environment.h"
#include "launcher/wire/agent_report.h"
#include "launcher/wire/agent_request.h"

namespace muster {

class RemedyRuns {
 public:
  using Tell = std::function<void(const RemedyRun&)>;
  using OnDone = std::function<void(const RunRemedy&)>;

  // `on_done`: the command ended well.
  RemedyRuns(ChildTasks& tasks, Tell tell, OnDone on_done);

  // `refusal`: why the node is not idle.
  void ask(const RunRemedy& request, const std::optional<std::string>& refusal,
           const Environment& environment);
  bool is_running() const;

 private:
  void ended(const RunRemedy& request, RemedyRun run);

  ChildTasks& tasks_;
  Tell tell_;
  OnDone on_done_;
  std::map<std::string, std::optional<RemedyRun>> runs_;  // by id; nothing: it goes on
};

// Runs the command and waits for it: in a child. What it leaves in the background is not waited
// for.
RemedyRun run_command(const RunRemedy& request, const Environment& environment);

}  // namespace muster
