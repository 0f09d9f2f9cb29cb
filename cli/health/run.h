// `muster health`: one run of this host's checks, for a person, a program or a monitor.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/health/host.h"
#include "cli/health/sources.h"
#include "cli/terminal/common_options.h"
#include "health/model/profile.h"
#include "scheduler/text/clock.h"

namespace muster {

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

}  // namespace muster
