// The directories of jobs and attempts on this node: which there are, made before ranks start,
// removed when nobody wants them any more. Blocking file work, no state.
#pragma once

#include <sys/types.h>

#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/agent/keeper/layout.h"
#include "launcher/agent/keeper/rank_environment.h"
#include "launcher/agent/node/child_tasks.h"
#include "launcher/agent/node/run_directory.h"
#include "launcher/wire/agent_message.h"
#include "runtime/protocol/boot_clock.h"
#include "scheduler/model/result.h"
#include "scheduler/model/retention.h"

namespace muster {

// Job directories, and the code copy with its links ./outputs and ./logs to the durable ones; what
// the snapshot has under these names is moved there.
Status prepare_code(const AttemptLayout& layout);

// muster.py, which a job's Python programs may import; muster_ray.py, which starts Ray;
// muster_debug.py, the sitecustomize.py of a rank that waits for a debugger.
std::string_view muster_module();
std::string_view muster_ray_module();
std::string_view muster_debug_module();

// Everything else a rank expects to exist: spool, vitals, these modules, checkpoint and output
// directories.
Status prepare_attempt(const StartRanks& start, const AttemptLayout& layout,
                       const DataPaths& paths);

// StartRanks as received, for the agent after this one. Mode 0600: it holds environment values.
Status save_start(const AttemptLayout& layout, const StartRanks& start);
std::optional<StartRanks> load_start(const AttemptLayout& layout);

// Sessions that the agent begins for an attempt, for who looks for what a dead agent left: a
// process that cleared its environment is known by nothing else. Those of another boot are passed
// over. A note that cannot be written (full disk) is not an error of the rank.
void note_session(const std::string& spool, const std::string& boot_id, pid_t session);
std::set<pid_t> noted_sessions(const std::string& spool, const std::string& boot_id);

// The attempts whose spools lie in `root`.
std::vector<AttemptKey> attempts_below(const std::string& root);

// Scratch space of Open MPI and Ray of an attempt that is over.
void remove_scratch(const AttemptLayout& layout);

bool path_exists(const std::string& path);

// Jobs of this controller and node of whose directory more than checkpoints is there, for the
// greeting. Of very many those first that hold more than outputs, which stay as long as a resume
// may need them; then the oldest.
std::vector<JobId> jobs_with_folders(const RunDirectory& run);

// All but checkpoints, and without `outputs_too` but what ranks wrote.
std::vector<std::string> disposable_parts(const std::string& job_folder, bool outputs_too);

// The directory itself and that of its checkpoints, as far as nothing is in them.
void remove_if_empty(const AttemptLayout& layout);

// Keeps muster's own home on a node from growing: builds of muster that nobody uses, folders of
// agents whose controller has not come back, files that no job needs. Other agents share the home,
// of other controllers, other builds and, over a shared file system, other hosts: what is in use is
// marked so every few hours, and only what nobody has marked for long goes. In a child of the
// agent's; owned by the agent.

struct NodeHome {
  std::string home;
  std::string own_run;     // the agent's run directory
  std::string own_binary;  // what it is running, by whatever name
};

// What was removed, at a wall clock's `now`.
std::vector<Removed> clean_node_home(const NodeHome& node, const RetentionLimits& keep, Time now);

class NodeCleaning {
 public:
  NodeCleaning(NodeHome node, ChildTasks& tasks, BootTime now);

  void keep(const RetentionLimits& retention) { retention_ = retention; }
  void poll(BootTime now);

 private:
  void mark_used() const;

  NodeHome node_;
  ChildTasks& tasks_;
  RetentionLimits retention_{};  // as the controller says; until then all stays
  BootTime due_;
};

}  // namespace muster
