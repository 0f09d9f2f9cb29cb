// Every verb of the command line: `add_…` declares it, the functions below do it. The `job` verbs
// with Azure's names call the same functions. verbs.def has the list.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/client/find.h"
#include "cli/grammar/command_line.h"
#include "cli/job/submission.h"
#include "launcher/controller/store/store.h"
#include "launcher/wire/client_message.h"
#include "scheduler/model/record.h"

namespace muster {

#define VERB(name) void add_##name(CommandLine& line);
#include "cli/verbs/verbs.def"
#undef VERB

// All of the list, in its order.
inline void add_verbs(CommandLine& line) {
#define VERB(name) add_##name(line);
#include "cli/verbs/verbs.def"
#undef VERB
}

struct RunOptions {
  SubmitRequest submit;
  bool detach = false;
  std::string save_as;  // the spec as queued, as YAML
  std::string profile;  // see cli/job/report.h
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

struct ListOptions : JobFilter {
  std::optional<std::int64_t> max_results;
  bool all_results = false;
  std::optional<Milliseconds> within;
  std::string parent;
};
void declare_list(Arguments& of, ListOptions& options);
int list_jobs(const ListOptions& options, const CommonOptions& common);
int show_job(const std::string& typed, const CommonOptions& common);

// Where a program is on this host: its path, or empty. Takes a path or a name to look for in $PATH.
using FindHere = std::function<std::string(const std::string& program)>;
std::string find_here(const std::string& program);

// "/venv/bin/python is not there on h01; it is here: put it on a shared folder or into `code`": of
// a rank of the newest attempt that ended with 127 or 126, by what it said last. Of a relative path
// in a job without `code`: how it gets there. Empty: nothing of the kind.
std::string missing_program_text(const std::vector<Record>& records, const FindHere& find);

struct LogsOptions {
  std::string job;
  bool follow = false;
  std::optional<std::int64_t> rank;
  std::string node;
  std::optional<std::int64_t> attempt;
  std::optional<std::int64_t> tail_lines;
};
void declare_log_filters(Arguments& of, LogsOptions& options, const std::string& of_attempt);
int show_logs(const LogsOptions& options, const CommonOptions& common);

struct CancelOptions {
  std::string job;
  std::optional<Milliseconds> grace;
  bool wait = false;  // the default
  bool no_wait = false;
};
void declare_cancel(Arguments& of, CancelOptions& options, const std::string& of_wait);
int cancel_job(const CancelOptions& options, const CommonOptions& common);

// Where a verb goes to: a node of a running job, as people name it.
struct NodePlace {
  std::string job;
  std::optional<std::int64_t> rank;
  std::optional<std::int64_t> node;
};
void declare_place(Arguments& of, NodePlace& place);
// What is asked of the controller to go there. Ends the verb where that cannot be.
Exec request_at(const NodePlace& place, const Home& home);

int list_services(const NodePlace& place, const CommonOptions& common);

// A login shell there, in this terminal.
int open_shell(const NodePlace& place, const CommonOptions& common);

// debug.sh, which runs beside a rank.
std::string_view debug_script();

struct DownloadOptions {
  std::string job;
  bool all = false;
  std::string output_name;
  std::string directory;
};
void declare_download(Arguments& of, DownloadOptions& options);
int download_job(const DownloadOptions& options, const CommonOptions& common);

// Of a job, finished or not: tags live in the store's derived row, where the controller leaves them
// alone.
struct TagUpdate {
  std::vector<std::string> set;      // `tags.key=value`
  std::vector<std::string> removed;  // `tags.key`
};
// The tags (a JSON object as text) with the update applied.
Result<std::string> updated_tags(const std::string& tags, const TagUpdate& update);

// Completion for shells, made from the grammar itself so that it cannot fall behind. Pure.
std::string bash_completion(const VerbShape& shape);
std::string zsh_completion(const VerbShape& shape);
std::string fish_completion(const VerbShape& shape);

}  // namespace muster
