// `muster health`: one run of this host's checks, for a person, a program or a monitor.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "cli/health/result.h"
#include "cli/health/sources.h"
#include "cli/health/state.h"
#include "cli/terminal/common_options.h"
#include "cli/terminal/document.h"
#include "health/model/profile.h"
#include "health/monitor/node_health.h"
#include "health/monitor/node_monitor.h"
#include "health/output/finding_report.h"
#include "scheduler/model/result.h"
#include "scheduler/text/clock.h"

namespace muster {

// A look at a node: all its sources read, judged with what is remembered, and what that makes of
// the node. Blocks until it is over, which the limits of its sources bound.

struct LookOptions {
  HealthProfile profile;
  Phase phase = Phase::on_demand;
  std::vector<std::string> checks;  // patterns; none: all
  std::set<std::int64_t> ended_uids;
  bool is_idle = false;       // no job of anybody runs here
  bool beside_ranks = false;  // only what may run beside them is done: told in the result
  bool may_pause = true;      // a second of time to look again at what one look cannot tell
};

inline constexpr std::string_view phase_names[] = {"prolog",     "periodic",  "epilog",
                                                   "on-failure", "on-demand", "qualification"};
std::string_view name_of(Phase phase);
// Letter case and `_` for `-` do not matter.
std::optional<Phase> phase_of(std::string_view name);

// The findings of one run of the monitor's checks, and how long the reads of each took.
struct RunFindings {
  std::vector<HealthFinding> findings;
  std::vector<double> took_ms;
  int first_readings = 0;  // left out: counters that have nothing to be compared with yet
};
RunFindings run_checks(NodeMonitor& monitor, HealthSources& sources,
                       const CheckSituation& situation);

class NodeLook {
 public:
  // `sources` outlives it.
  NodeLook(HealthSources& sources, LookOptions options, HealthState saved);

  void look();
  NodeVerdict verdict() const;
  // How long ago the verdict was made, before the first look: in an earlier run. Nothing: never, or
  // before a boot.
  std::optional<Milliseconds> verdict_age() const;
  // Whether one more look decides about something that counts.
  bool is_open() const;
  int looks() const { return looks_; }

  HostHealth result() const;
  HealthState state() const;
  const CheckRules& rules() const { return health_.rules(); }
  Streaks& streaks() { return health_.streaks(); }

 private:
  CheckSituation situation() const;
  void take(std::vector<HealthFinding> findings, const FindingsTaken& taken);
  RunFindings latest() const;
  void show_fault(HostHealth& host, const ActiveFault& fault, const RunFacts& run) const;

  HealthSources& sources_;
  LookOptions options_;
  NodeMonitor monitor_;
  NodeHealth health_;
  std::string saved_profile_;
  std::string judged_boot_id_;
  SinceBoot judged_at_{};
  std::vector<HealthFinding> events_;  // of the log and the driver, since the beginning
  RunFindings run_;                    // of the last look
  SteadyTime began_ = std::chrono::steady_clock::now();
  int looks_ = 0;
};

// What several verbs of `muster health` are asked alike, of findings: what is shown, remembered,
// and written for monitors.
struct HealthKept {
  bool all = false;   // show passes as well
  std::string state;  // empty: the usual file, for this host alone
  bool forget = false;
  std::string prometheus_file;
};

// Of a host or nodes.
struct HealthAsked : HealthKept {
  std::vector<std::string> nodes;       // of the cluster; none, and no target: this host
  std::string target;                   // all nodes of this one
  std::optional<Milliseconds> timeout;  // of each node; of its probes, where it is measured
  std::string profile;                  // a name or a file; empty: by the GPUs
  bool profile_alone = false;           // not over the shipped one of its name
};

// What is measured of a host or nodes.
struct BenchmarksAsked {
  std::vector<std::string> only;  // benchmarks; none: those that the profile has a floor for
  std::string disk;               // a directory; empty: no disk is written
  std::optional<std::int64_t> burn_minutes;  // of processors under full load, verified
  bool force = false;                        // idle or not
  bool gate = false;  // a job is about to start here, and will have the processors as they are
};

struct HealthRunOptions : HealthAsked {
  std::optional<BenchmarksAsked> measured;  // instead of looked at
  std::string phase = "on-demand";          // see phase_names
  std::vector<std::string> checks;          // patterns; none: all
  bool quick = false;                       // one look, whatever it leaves open
  bool idle = false;                        // no job runs here
  bool beside_ranks = false;                // one does: nothing that would disturb it
  std::string root;
  bool slurm = false;
  std::string hook = "health";
  std::string scontrol = "scontrol";
};

// Where it is remembered what was found; nothing: nowhere.
std::optional<std::filesystem::path> state_file_of(const HealthKept& options,
                                                   const std::string& host,
                                                   const std::string& kind = "health");

// A pattern that fits no check ends the verb.
void check_patterns(const std::vector<std::string>& patterns);

int run_health(const HealthRunOptions& options, const CommonOptions& common);

// A look that is about to be taken, with what is remembered.
struct PreparedLook {
  std::unique_ptr<HealthSources> sources;
  std::unique_ptr<NodeLook> look;
  std::optional<std::filesystem::path> state_file;
};
struct LookWanted {
  Phase phase = Phase::on_demand;
  NodeReaderLimits limits;
  bool keeps_profile = false;  // the one of the last run counts, without asking for GPUs
  bool may_pause = true;
  std::set<std::int64_t> ended_uids;
  int if_invalid = invalid_file;  // with which the verb ends that has no valid profile
};
PreparedLook prepare_look(const HealthRunOptions& options, const LookWanted& wanted,
                          const CommonOptions& common);

// Looks again, a second apart, while that decides about something, at most `looks` times in all.
void look_until_sure(NodeLook& look, int looks);
// What is remembered and what monitors read; a failure is said. 0, or 99 for the latter.
int keep_results(const PreparedLook& prepared, const HealthRunOptions& options,
                 const CommonOptions& common);

// `muster health record`: this host's sources as files, so that what was found can be found again
// elsewhere with `--root`. Holds what the checks read and nothing else: no environment, no keys, no
// command lines of processes.

struct HealthRecordOptions {
  std::string directory;  // absent or empty
  std::string profile;    // empty: by the GPUs
  std::string root;
};

// All that any check of the profile reads, and what a profile is learned from, now. `directory` is
// there and empty.
Status record_sources(HealthSources& sources, const HealthProfile& profile,
                      const std::string& directory);

int record_health(const HealthRecordOptions& options, const CommonOptions& common);

// `muster health --slurm`: what Slurm calls on a node. The health check program drains and undrains
// its own node by scontrol; prolog and epilog answer by their exit code and call nothing.

// The exit code of the hook: 0, or 1 for a node that must not get jobs.
int run_slurm_hook(const HealthRunOptions& options, const CommonOptions& common);

// A node as Slurm shows it: the line of `scontrol show node -o NAME`. Pure.

// An Error: it is no such line, or of another node than `name`.
Result<SlurmNode> parse_slurm_node(std::string_view text, std::string_view name);

// `muster health checks` and `muster health profiles`: what is checked, and what comes with the
// program.

// [{id, source, criterion, severity, class, phases, persistence, cost_us, mode, required, samples,
// limits: [{name, unit, usual, value}]}] of all checks that fit the pattern; mode, required,
// samples and the limits' values as the profile has them.
Document checks_document(const HealthProfile& profile, const std::string& pattern = "*");
struct HealthChecksOptions {
  std::string name;     // or a pattern; empty: all
  std::string profile;  // a name or a file; empty: none
};
// A table of all; of the one that is named all that is known of it.
int show_checks(const HealthChecksOptions& options, const CommonOptions& common);

// Without a name the list, [{name, gpu_name, gpus, ports, rate_gbps}]; with one the file.
int show_profiles(const std::string& name, const CommonOptions& common);

}  // namespace muster
