#include "cli/job/submission.h"

#include <fcntl.h>
#include <pwd.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string_view>

#include "cli/client/start.h"
#include "cli/data/stores.h"
#include "cli/job/git_code.h"
#include "cli/image/image.h"
#include "cli/image/image_files.h"
#include "cli/job/memory.h"
#include "cli/terminal/terminal.h"
#include "launcher/controller/store/store.h"
#include "launcher/os/fd.h"
#include "launcher/os/read_file.h"
#include "launcher/staging/trees_file.h"
#include "launcher/wire/record_codec.h"
#include "scheduler/text/spelling.h"

namespace muster {

namespace {

namespace fs = std::filesystem;

std::string generated_name() {
  NameBytes random{};
  check(::getrandom(random.data(), random.size(), 0) == static_cast<ssize_t>(random.size()),
        "no random bytes");
  return job_name_from(random);
}

std::string directory_name() {
  std::error_code failure;
  const std::string name = fs::current_path(failure).filename().string();
  return name.empty() ? "muster" : name;
}

void write_file(const fs::path& path, const std::string& text) {
  if (replace_file(path, text, 0600, Durable::in_cache)) return;
  throw VerbEnd(internal_error, "cannot write " + path.string() + ": " + std::strerror(errno));
}

// Left by a submission that was killed: the job is not known, and nothing of a run is there.
bool is_abandoned(const Home& home, const JobId& job) {
  const auto store = Store::open(home.root, Store::Mode::read_only);
  const auto row = store ? (*store)->job(job) : store.error();
  if (!row || *row) return false;
  std::error_code failure;
  for (fs::directory_iterator entry(home.job(job), failure), end; !failure && entry != end;
       entry.increment(failure)) {
    if (entry->is_directory(failure)) return false;
  }
  return !failure;
}

// The job's directory, made and locked by nobody else until the result goes: the name is taken when
// another has it.
Result<Fd> claim_directory(const Home& home, const JobId& job) {
  const fs::path directory = home.job(job);
  std::error_code ignored;
  fs::create_directories(directory.parent_path(), ignored);
  const bool made = ::mkdir(directory.c_str(), 0700) == 0;
  Fd lock(made || errno == EEXIST ? ::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)
                                  : -1);
  if (!lock) {
    return Error{"cannot make " + directory.string() + ": " + std::strerror(errno) +
                 "; free space or set MUSTER_HOME to a directory that can be written"};
  }
  const bool locked = ::flock(lock.get(), LOCK_EX | LOCK_NB) == 0;
  if (locked && (made || is_abandoned(home, job))) return lock;
  return Error{"the job name '" + job.value +
               "' exists; omit `name` to generate one, or choose another"};
}

// Takes the snapshots into the blobs of the home.
std::vector<Tree> stage_sources(const Home& home, JobSpec& spec, const ComputeTarget& target,
                                const CommonOptions& common) {
  std::vector<Tree> trees;
  auto requests = sources_of(spec, target);
  std::optional<GitCode> git;
  if (!spec.git_url.empty()) {
    git.emplace(or_end(GitCode::clone(spec.git_url), invalid_file));
    spec.recorded["code.commit"] = git->commit();
    notice("code: commit " + git->commit(), common);
    requests.push_back({.source = git->directory(), .place = "code"});
  }
  if (requests.empty()) return trees;
  const auto store = or_end(BlobStore::open(home.blobs()));
  for (const SnapshotRequest& request : requests) {
    Snapshot snapshot = or_end(take_snapshot(request, store));
    for (const std::string& warning : snapshot.warnings) notice("warning: " + warning, common);
    trees.push_back(std::move(snapshot.tree));
  }
  return trees;
}

// What inputs and outputs have in stores: listed, and put where the controller finds it. The lists
// travel to nodes as one more tree.
void stage_stores(const Home& home, JobSpec& spec, const CheckedJob& job,
                  std::vector<Tree>& trees) {
  JobData data = job.data;
  const auto texts = or_end(list_inputs(home, *job.stores, data, spec), invalid_file);
  data.outputs = outputs_to_stores(spec, *job.stores);
  for (const JobOutput& output : data.outputs) {
    // Collected first, also where all nodes see one directory.
    if (!output.uri.empty()) spec.outputs[output.output].mode = OutputMode::upload;
    if (!output.uri.empty()) or_end(job.stores->keep_credentials(output.place.store));
  }
  if (data.empty()) return;
  or_end(save_job_data(home.job(JobId{spec.name}), data));
  if (texts.empty()) return;
  const auto store = or_end(BlobStore::open(home.blobs()));
  Tree lists{"manifests", {}, false};
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const StoredBlob blob = or_end(store.put_bytes(texts[i]));
    lists.entries.push_back(
        {TreeEntry::Kind::file, data.inputs[i].input, 0444, blob.size_bytes, blob.hash, ""});
  }
  trees.push_back(std::move(lists));
}

void fill_directory(const Home& home, JobSpec& spec, const CheckedJob& job,
                    const std::optional<ImageBuild>& build, const CommonOptions& common) {
  const fs::path directory = home.job(JobId{spec.name});
  std::vector<Tree> trees = stage_sources(home, spec, *job.target, common);
  stage_stores(home, spec, job, trees);
  if (build) build_image(*build, spec.environment, home, common);
  auto image =
      image_tree(spec.environment, build.has_value(), home, *job.target, job.images, common);
  const bool is_brought = image.has_value();
  if (image) trees.push_back(std::move(*image));
  or_end(save_trees(home.trees(JobId{spec.name}), trees));
  const std::string login = is_brought ? "" : login_for_nodes(spec.environment, common);
  if (!login.empty()) write_file(home.registry_login(JobId{spec.name}), login);
  write_file(directory / "spec.yml", job.text);
  write_file(directory / "spec.json", encode_spec(spec));
}

JobSpec named_spec(const CheckedJob& job, const SubmitRequest& request) {
  JobSpec spec = job.file.spec;
  const bool is_named = request.name || !spec.name.empty();
  give_name(spec, is_named ? request.name.value_or(spec.name) : generated_name());
  if (spec.display_name.empty()) spec.display_name = spec.name;
  if (spec.experiment_name.empty()) spec.experiment_name = directory_name();
  return spec;
}

bool is_job_name(const std::string& name) {
  const std::string_view first = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
  const auto legal = [&](char c) { return first.find(c) != first.npos || c == '-' || c == '_'; };
  if (name.empty() || name.size() > 255 || first.find(name[0]) == first.npos) return false;
  return std::ranges::all_of(name, legal);
}

// The steps on this machine are done; hand the job over.
Submitted hand_over(const Home& home, const JobSpec& spec, const CheckedJob& job,
                    const CommonOptions& common) {
  const Submit request{spec, *job.target, user_name(), job.text};
  const Accepted yes = accepted_or_end(home, request, "cannot submit: ", common);
  if (!yes.note.empty()) notice(yes.note, common);
  report_if_output_fails("job " + yes.job.value + " was queued; come back with: muster logs -f " +
                         yes.job.value);
  return {yes.job, spec};
}

constexpr std::array<std::string_view, 32> adjectives{
    "amber", "brave", "brisk",  "calm",  "clear",  "cosmic", "crisp", "eager",
    "early", "fair",  "gentle", "green", "happy",  "honest", "jolly", "keen",
    "kind",  "light", "lively", "loyal", "mellow", "neat",   "noble", "patient",
    "plain", "quick", "quiet",  "solid", "steady", "sunny",  "swift", "warm"};
constexpr std::array<std::string_view, 32> nouns{
    "acorn", "anchor",  "atlas", "badger", "beacon", "birch",  "bridge", "canyon",
    "cedar", "comet",   "coral", "falcon", "garden", "harbor", "heron",  "island",
    "kite",  "lantern", "maple", "meadow", "nectar", "orbit",  "otter",  "pebble",
    "pine",  "plough",  "raven", "river",  "sail",   "spark",  "summit", "walnut"};
// Without vowels, so that no word is spelled by accident, and without l and 1, o and 0.
constexpr std::string_view name_letters = "bcdfghjkmnpqrstvwxz23456789";

}  // namespace

std::string user_name() {
  const passwd* entry = ::getpwuid(::geteuid());
  return entry == nullptr ? std::to_string(::geteuid()) : entry->pw_name;
}

Submitted submit_job(const Home& home, const SubmitRequest& request, const CommonOptions& common) {
  CheckRequest wanted = request.check;
  if (request.name && is_job_name(*request.name)) wanted.sets.push_back("name=" + *request.name);
  const CheckedJob job = or_end(check_job(wanted, common), invalid_file);
  require_runnable(job, common);
  JobSpec spec = named_spec(job, request);
  if (!is_job_name(spec.name)) {
    throw VerbEnd(invalid_file,
                  "invalid job name " + quoted_text(spec.name) +
                      "; use 1 to 255 letters, digits, '_' and '-', beginning with a letter or "
                      "digit");
  }
  const auto build = plan_build(spec.environment, job.images, common);
  if (!build) pin_image(spec.environment, job.images, common);
  or_end(prepare_home(home));
  const fs::path directory = home.job(JobId{spec.name});
  auto claimed = claim_directory(home, JobId{spec.name});
  const bool is_taken = !claimed && fs::exists(directory);
  const Fd lock = or_end(std::move(claimed), is_taken ? invalid_file : internal_error);
  try {
    fill_directory(home, spec, job, build, common);
    return hand_over(home, spec, job, common);
  } catch (const VerbEnd&) {
    std::error_code ignored;
    fs::remove_all(directory, ignored);
    throw;
  }
}

std::string job_name_from(const NameBytes& random) {
  std::string name(adjectives[random[0] % adjectives.size()]);
  name += '_';
  name += nouns[random[1] % nouns.size()];
  name += '_';
  for (std::size_t i = 0; i < 10; ++i) name += name_letters[random[i + 2] % name_letters.size()];
  return name;
}

bool seen_by_nodes(const std::string& path, const ComputeTarget& target) {
  if (is_this_host(target)) return true;
  if (target.shared_root.empty()) return false;
  const std::string root =
      target.shared_root.back() == '/' ? target.shared_root : target.shared_root + "/";
  return path == target.shared_root || path.starts_with(root);
}

std::vector<SnapshotRequest> sources_of(const JobSpec& spec, const ComputeTarget& target) {
  std::vector<SnapshotRequest> requests;
  if (!spec.code.empty()) requests.push_back({.source = spec.code, .place = "code"});
  for (const auto& [name, input] : spec.inputs) {
    if (input.is_literal || input.path_kind != PathKind::local || input.in_place) continue;
    const bool in_place = input.mode != InputMode::download && seen_by_nodes(input.path, target);
    if (in_place || input.mode == InputMode::direct) continue;
    SnapshotRequest request{.source = input.path, .place = "inputs/" + name, .writable = false};
    request.honour_ignore_files = false;
    requests.push_back(std::move(request));
  }
  return requests;
}

}  // namespace muster
