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
#include <iterator>
#include <string_view>

#include "cli/client/start.h"
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

Status write_file(const fs::path& path, const std::string& text) {
  if (replace_file(path, text, 0600, Durable::in_cache)) return Done{};
  return Error{"cannot write " + path.string() + ": " + std::strerror(errno)};
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

Status fill_directory(const Home& home, const JobSpec& spec, const CheckedJob& job,
                      const CommonOptions& common) {
  const fs::path directory = home.job(JobId{spec.name});
  auto staged = stage_sources(home, spec, *job.target);
  if (!staged) return staged.error();
  for (const std::string& warning : staged->warnings) notice("warning: " + warning, common);
  if (auto done = save_trees(home.trees(JobId{spec.name}), staged->trees); !done) return done;
  if (auto done = write_file(directory / "spec.yml", job.text); !done) return done;
  return write_file(directory / "spec.json", encode_spec(spec));
}

void forget_directory(const fs::path& directory) {
  std::error_code ignored;
  fs::remove_all(directory, ignored);
}

Submitted not_submitted(const std::string& sentence, int exit_code, const CommonOptions& common) {
  return Submitted{std::nullopt, {}, print_error(sentence, exit_code, common)};
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
  int exit_code = 0;
  const auto yes = ask_accepted(home, request, "cannot submit: ", exit_code, common);
  if (!yes) return Submitted{std::nullopt, {}, exit_code};
  if (!yes->note.empty()) notice(yes->note, common);
  report_if_output_fails("job " + yes->job.value + " was queued; come back with: muster logs -f " +
                         yes->job.value);
  return Submitted{yes->job, spec, 0};
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
  const auto job = check_job(wanted, common);
  if (!job) return not_submitted(job.error().message, invalid_file, common);
  if (!report_whether_it_can_run(*job, common)) return Submitted{std::nullopt, {}, invalid_file};
  const JobSpec spec = named_spec(*job, request);
  if (!is_job_name(spec.name)) {
    return not_submitted("invalid job name " + quoted_text(spec.name) +
                             "; use 1 to 255 letters, digits, '_' and '-', beginning with a "
                             "letter or digit",
                         invalid_file, common);
  }
  if (auto ready = prepare_home(home); !ready) {
    return not_submitted(ready.error().message, internal_error, common);
  }
  const fs::path directory = home.job(JobId{spec.name});
  const auto claimed = claim_directory(home, JobId{spec.name});
  if (!claimed) {
    const bool taken = fs::exists(directory);
    return not_submitted(claimed.error().message, taken ? invalid_file : internal_error, common);
  }
  Submitted submitted{std::nullopt, {}, internal_error};
  if (auto filled = fill_directory(home, spec, *job, common); !filled) {
    print_error(filled.error().message, common);
  } else {
    submitted = hand_over(home, spec, *job, common);
  }
  if (!submitted.job) forget_directory(directory);
  return submitted;
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
    if (input.is_literal || input.path_kind != PathKind::local) continue;
    const bool in_place = input.mode != InputMode::download && seen_by_nodes(input.path, target);
    if (in_place || input.mode == InputMode::direct) continue;
    SnapshotRequest request{.source = input.path, .place = "inputs/" + name, .writable = false};
    request.honour_ignore_files = false;
    requests.push_back(std::move(request));
  }
  return requests;
}

Result<Staged> stage_sources(const Home& home, const JobSpec& spec, const ComputeTarget& target) {
  Staged staged;
  const auto requests = sources_of(spec, target);
  if (requests.empty()) return staged;
  const auto store = BlobStore::open(home.blobs());
  if (!store) return store.error();
  for (const SnapshotRequest& request : requests) {
    auto snapshot = take_snapshot(request, *store);
    if (!snapshot) return snapshot.error();
    staged.trees.push_back(std::move(snapshot->tree));
    std::ranges::move(snapshot->warnings, std::back_inserter(staged.warnings));
  }
  return staged;
}

}  // namespace muster
