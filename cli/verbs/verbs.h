// Every verb of the command line: `add_…` declares it, the functions below do it. The `job` verbs
// with Azure's names call the same functions. verbs.def has the list.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/grammar/command_line.h"
#include "launcher/controller/store/store.h"

namespace muster {

#define VERB(name) void add_##name(CommandLine& line);
#include "cli/verbs/verbs.def"
#undef VERB
void add_controller(CommandLine& line);  // of main alone: it is the controller itself

// All of the list, in its order.
inline void add_verbs(CommandLine& line) {
#define VERB(name) add_##name(line);
#include "cli/verbs/verbs.def"
#undef VERB
}

struct RunOptions {
  std::string file;
  std::vector<std::string> sets;
  std::string name;
  bool detach = false;
  bool accept_unresolved = false;
  std::string save_as;  // the spec as queued, as YAML
  std::string profile;  // see cli/job/launch_report.h
};
int run_job(const RunOptions& options, const CommonOptions& common);
int submit_only(const RunOptions& options, const CommonOptions& common);
int plan_job(const RunOptions& options, const CommonOptions& common);

struct ValidateOptions {
  std::vector<std::string> files;
  std::vector<std::string> sets;
  std::string dialect;  // `azure`: also what Azure ML would refuse; empty: what muster does
};
int validate_files(const ValidateOptions& options, const CommonOptions& common);

int list_jobs(const JobFilter& filter, const CommonOptions& common);
int show_job(const std::string& typed, const CommonOptions& common);
int explain_job(const std::string& typed, bool is_brief, const CommonOptions& common);

struct LogsOptions {
  std::string job;
  bool follow = false;
  std::optional<std::int64_t> rank;
  std::string node;
  std::optional<std::int64_t> attempt;
  std::optional<std::int64_t> tail_lines;
};
int show_logs(const LogsOptions& options, const CommonOptions& common);

struct CancelOptions {
  std::string job;
  std::optional<Milliseconds> grace;
  bool no_wait = false;
};
int cancel_job(const CancelOptions& options, const CommonOptions& common);

struct DownloadOptions {
  std::string job;
  bool all = false;
  std::string output_name;
  std::string directory;
};
int download_job(const DownloadOptions& options, const CommonOptions& common);

}  // namespace muster
