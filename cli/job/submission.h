// From a checked job to one in the controller's queue: a name, the snapshot of its code and inputs
// in the state directory, the spec as understood, the request. Says what goes wrong on stderr.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "cli/client/targets.h"
#include "cli/data/stores.h"
#include "cli/terminal/common_options.h"
#include "launcher/controller/store/home.h"
#include "launcher/data/datastore.h"
#include "launcher/staging/snapshot.h"
#include "scheduler/model/compute.h"
#include "scheduler/model/job_spec.h"
#include "templates/parse_file.h"

namespace muster {

struct CheckedJob {
  JobFile file;
  std::string text;  // as read; empty for a file that could not be
  std::optional<ComputeTarget> target;
  ImageSettings images;               // of the cluster files
  std::optional<KnownStores> stores;  // where the target is known
  JobData data;                       // that inputs have in stores, not listed yet
  bool can_run = false;               // a command job without errors and unresolved items
};

struct CheckRequest {
  std::string path;  // `-`: standard input
  std::vector<std::string> sets;
  bool for_running = true;         // also what this version cannot do, and the target
  bool accept_unresolved = false;  // `--skip-validation`
  bool accept_resources = false;   // a file that describes one is fine as it is
};

// Prints the findings, and ends the verb where the job cannot run.
void require_runnable(const CheckedJob& job, const CommonOptions& common);

Result<CheckedJob> check_job(const CheckRequest& request, const CommonOptions& common);

// Of this process; its number where it has none.
std::string user_name();

struct SubmitRequest {
  CheckRequest check;
  std::optional<std::string> name;  // instead of the file's
};

struct Submitted {
  JobId job;
  JobSpec spec;
};

// Everything from the file on. Prints findings; where there is no job, the verb ends.
Submitted submit_job(const Home& home, const SubmitRequest& request, const CommonOptions& common);

// A name for a job that was given none: `adjective_noun_<10 characters>` of lower-case letters and
// digits. Pure; randomness is an input.
using NameBytes = std::array<std::uint8_t, 16>;
std::string job_name_from(const NameBytes& random);

// What a job needs on its nodes and where it comes from on this machine: the code, and inputs that
// the nodes cannot see by themselves. One request for each tree; nothing is read yet.
std::vector<SnapshotRequest> sources_of(const JobSpec& spec, const ComputeTarget& target);

// Whether every node of the target sees `path` under that name: nodes on this machine do, and all
// do below the shared root.
bool seen_by_nodes(const std::string& path, const ComputeTarget& target);

// `code: git+URL[@REF]`: the repository, cloned where the job is submitted by the user's own git
// with the user's own credentials, and the commit that the reference was. Blocks for minutes at
// most; nothing is asked. What a job file names is a stranger's word: only plain transports are
// taken.

struct GitPlace {
  std::string url;
  std::string ref;  // a branch, a tag or a commit; empty: what the repository has checked out
};
// The Error says what is wrong with the text. Pure.
Result<GitPlace> git_place(const std::string& text);

// A clone in a temporary directory, which goes with it.
class GitCode {
 public:
  static Result<GitCode> clone(const std::string& text);
  ~GitCode();
  GitCode(GitCode&& other) noexcept;
  GitCode& operator=(GitCode&&) = delete;

  const std::filesystem::path& directory() const { return directory_; }
  const std::string& commit() const { return commit_; }

 private:
  explicit GitCode(std::filesystem::path directory) : directory_(std::move(directory)) {}

  std::filesystem::path directory_;
  std::string commit_;
};

}  // namespace muster
