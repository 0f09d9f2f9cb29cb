#include "cli/job/submission.h"

#include <fcntl.h>
#include <pwd.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <string_view>
#include <tuple>
#include <utility>

#include "cli/client/start.h"
#include "cli/data/stores.h"
#include "cli/image/image.h"
#include "cli/image/needs.h"
#include "cli/job/plan.h"
#include "cli/terminal/files.h"
#include "cli/terminal/terminal.h"
#include "launcher/controller/store/store.h"
#include "launcher/image/name.h"
#include "launcher/os/child.h"
#include "launcher/os/fd.h"
#include "launcher/os/private_directory.h"
#include "launcher/os/read_file.h"
#include "launcher/staging/trees_file.h"
#include "launcher/wire/record_codec.h"
#include "scheduler/text/spelling.h"
#include "scheduler/text/text.h"
#include "templates/cluster/file.h"
#include "templates/job/job_file.h"
#include "templates/yaml/reader.h"

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
JobData stage_stores(const Home& home, JobSpec& spec, const CheckedJob& job,
                     std::vector<Tree>& trees) {
  JobData data = job.data;
  const auto texts = or_end(list_inputs(home, *job.stores, data, spec), invalid_file);
  data.outputs = outputs_to_stores(spec, *job.stores);
  or_end(find_content(home, *job.stores, spec, data.outputs), invalid_file);
  or_end(find_own_place(spec, *job.stores, data), invalid_file);
  if (!data.own.store.name.empty()) spec.recorded["store"] = data.own.store.name;
  for (const JobOutput& output : data.outputs) {
    // Collected first, also where all nodes see one directory.
    if (output.uri.empty()) continue;
    spec.outputs[output.output].mode = OutputMode::upload;
    spec.outputs[output.output].is_in_store = true;
    or_end(job.stores->keep_credentials(output.place.store));
  }
  if (data.empty()) return data;
  or_end(save_job_data(home.job(JobId{spec.name}), data));
  if (texts.empty()) return data;
  const auto store = or_end(BlobStore::open(home.blobs()));
  Tree lists{"manifests", {}, false};
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const StoredBlob blob = or_end(store.put_bytes(texts[i]));
    lists.entries.push_back(
        {TreeEntry::Kind::file, data.inputs[i].input, 0444, blob.size_bytes, blob.hash, ""});
  }
  trees.push_back(std::move(lists));
  return data;
}

void fill_directory(const Home& home, JobSpec& spec, const CheckedJob& job,
                    const std::optional<ImageBuild>& build, const CommonOptions& common) {
  const fs::path directory = home.job(JobId{spec.name});
  std::vector<Tree> trees = stage_sources(home, spec, *job.target, common);
  const JobData data = stage_stores(home, spec, job, trees);
  const auto needs = needs_of(spec, data, build, *job.target, job.images);
  for (const JobNeed& need : needs) notice(need.name + ": " + need.text, common);
  say_warnings(needs, common);
  if (build) build_image(*build, spec.environment, home, common);
  auto image = image_tree(spec.environment, build.has_value(), home, *job.target, job.images,
                          spec.muster.nodes_max, common);
  const bool is_brought = image.has_value();
  const bool may_be_brought = !build && job.images.pull == ImageBringer::automatic &&
                              is_image_digest(spec.environment.digest);
  if (may_be_brought) spec.recorded[image_pull_key] = "auto";
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
  return is_word_of(name, "-_") && name.size() <= 255 && name[0] != '-' && name[0] != '_';
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

// 32 of each.
constexpr std::string_view adjectives =
    "amber brave brisk calm clear cosmic crisp eager early fair gentle green happy honest jolly "
    "keen "
    "kind light lively loyal mellow neat noble patient plain quick quiet solid steady sunny swift "
    "warm";
constexpr std::string_view nouns =
    "acorn anchor atlas badger beacon birch bridge canyon cedar comet coral falcon garden harbor "
    "heron island kite lantern maple meadow nectar orbit otter pebble pine plough raven river sail "
    "spark summit walnut";
// Without vowels, so that no word is spelled by accident, and without l and 1, o and 0.
constexpr std::string_view name_letters = "bcdfghjkmnpqrstvwxz23456789";

// A repository of some GB over a slow line; whoever has a larger one clones it and names a
// directory.
constexpr Milliseconds fetch_limit{600'000};
constexpr Milliseconds look_limit{60'000};
constexpr std::string_view schemes[] = {"https://", "http://", "ssh://", "git://", "file://"};

bool is_printable(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return c > ' ' && c != 0x7f; });
}

bool is_ref(std::string_view ref) {
  return is_word_of(ref, "-_./+") && ref.front() != '-' && !mentions(ref, "..");
}

std::string_view after_scheme(std::string_view url) {
  return url.substr(url.find("://") + 3);
}

// Another user's repository may run that user's programs as us.
Status own_repository(const std::string& url) {
  if (!url.starts_with("file://")) return Done{};
  const std::string path(after_scheme(url));
  struct stat facts {};
  if (::stat(path.c_str(), &facts) != 0) return Error{path + ": " + std::strerror(errno)};
  const bool is_trusted = facts.st_uid == ::geteuid() || facts.st_uid == 0;
  if (is_trusted) return Done{};
  return Error{path + " belongs to " + owner_and_mode(facts) + "; clone it and name the directory"};
}

// The words of git before its verb: it asks nobody, and takes no transport that runs a program. A
// hook of git's, for one, names the repository that it runs for.
std::vector<std::string> git_words(const fs::path& directory) {
  std::vector<std::string> words = {"env"};
  for (const char* name : {"GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY",
                           "GIT_COMMON_DIR", "GIT_NAMESPACE"}) {
    words.insert(words.end(), {"-u", name});
  }
  words.insert(words.end(), {"GIT_TERMINAL_PROMPT=0", "git", "-C", directory.string()});
  for (const char* setting :
       {"protocol.allow=never", "protocol.https.allow=always", "protocol.http.allow=always",
        "protocol.ssh.allow=always", "protocol.git.allow=always", "protocol.file.allow=always",
        "advice.detachedHead=false"}) {
    words.insert(words.end(), {"-c", setting});
  }
  return words;
}

Result<std::string> git(const fs::path& directory, const std::vector<std::string>& verb,
                        Milliseconds limit) {
  std::vector<std::string> words = git_words(directory);
  words.insert(words.end(), verb.begin(), verb.end());
  auto said = run_within(words, limit);
  if (said) return std::string(trimmed(*said));
  const std::string& message = said.error().message;
  const std::size_t why = message.find("' ");
  return Error{"git " + verb.front() +
               (why == message.npos ? ": " + message : message.substr(why + 1))};
}

// The commit alone where the server hands it out under that name, else all branches and tags.
Result<std::string> fetch(const fs::path& directory, const GitPlace& place) {
  const std::string wanted = place.ref.empty() ? "HEAD" : place.ref;
  const auto shallow =
      git(directory, {"fetch", "--quiet", "--depth", "1", "--", place.url, wanted}, fetch_limit);
  if (shallow) return git(directory, {"rev-parse", "--verify", "FETCH_HEAD^{commit}"}, look_limit);
  const auto all = git(directory,
                       {"fetch", "--quiet", "--tags", "--update-head-ok", "--", place.url,
                        "+refs/heads/*:refs/heads/*"},
                       fetch_limit);
  if (!all) return all.error();
  auto commit =
      git(directory, {"rev-parse", "--verify", "--quiet", wanted + "^{commit}"}, look_limit);
  if (commit) return commit;
  return Error{"it has no branch, tag or commit " + quoted_text(wanted)};
}

// A snapshot copies what such a link points to: files of the submitter that nobody meant to send.
Status no_links_out(const fs::path& directory) {
  std::error_code failure;
  const std::string root = fs::canonical(directory, failure).string() + '/';
  for (fs::recursive_directory_iterator entry(directory, failure), end; !failure && entry != end;
       entry.increment(failure)) {
    if (!entry->is_symlink(failure)) continue;
    const std::string target = fs::weakly_canonical(entry->path(), failure).string() + '/';
    if (target.starts_with(root)) continue;
    return Error{"its link " + quoted_text(entry->path().lexically_relative(directory).string()) +
                 " leads out of it"};
  }
  if (failure) return Error{"cannot read the clone: " + failure.message()};
  return Done{};
}

void append(std::vector<Finding>& to, std::vector<Finding> from) {
  std::ranges::move(from, std::back_inserter(to));
}

// What keeps the job from running here, beside what is wrong with its file.
std::vector<Finding> findings_for_running(CheckedJob& job, const Result<KnownTargets>& known) {
  std::vector<Finding> found;
  if (known) {
    job.images = known->images;
    found = resolve_environment(job.file, job.images, Home::from_environment());
    append(found, image_findings(job.file, job.images));
  }
  append(found, cannot_run_yet(job.file));
  if (!known) return found;
  ResolvedTarget resolved = resolve_target(job.file, known->targets, known->default_target);
  append(found, std::move(resolved.findings));
  if (resolved.target != nullptr) job.target = *resolved.target;
  job.file.spec.muster.site_rules = known->rules;
  const Home home = Home::from_environment();
  job.stores.emplace(home, known->datastores, known->default_datastore);
  ResolvedData data = resolve_data(job.file, *job.stores, home);
  append(found, std::move(data.findings));
  job.data = std::move(data.data);
  job.data.cache = known->data;
  if (job.target) append(found, gate_findings(job.file, *job.target));
  if (job.target) append(found, resume_findings(job.file, *job.target));
  if (job.target && !has_errors(job.file.findings)) {
    append(found, train_findings(job.file, *job.target));
  }
  return found;
}

// A value that could not be read says nothing more: only its error is shown.
std::vector<Finding> new_places(std::vector<Finding> found, const std::vector<Finding>& told) {
  const auto is_refused = [&](const Finding& each) {
    return std::ranges::any_of(told, [&](const Finding& error) {
      return error.severity == Severity::error && error.key == each.key;
    });
  };
  std::erase_if(found, is_refused);
  return found;
}

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
  std::string name;
  name += words_in(adjectives)[random[0] % 32];
  name += '_';
  name += words_in(nouns)[random[1] % 32];
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

Result<GitPlace> git_place(const std::string& text) {
  GitPlace place{text.starts_with("git+") ? text.substr(4) : text, ""};
  const bool is_known = std::ranges::any_of(
      schemes, [&](std::string_view scheme) { return place.url.starts_with(scheme); });
  if (!is_known || !is_printable(place.url)) {
    return Error{
        "expected git+https://, git+http://, git+ssh://, git:// or git+file://, then a host "
        "and a path"};
  }
  const std::size_t path = place.url.find('/', place.url.find("://") + 3);
  const std::size_t mark = place.url.rfind('@');
  if (path != std::string::npos && mark != std::string::npos && mark > path) {
    place.ref = place.url.substr(mark + 1);
    place.url.resize(mark);
    if (!is_ref(place.ref)) return Error{quoted_text(place.ref) + " is no branch, tag or commit"};
  }
  const std::string_view host =
      after_scheme(place.url).substr(0, after_scheme(place.url).find('/'));
  if (host.starts_with('-')) return Error{quoted_text(host) + " is no host"};
  const std::size_t user = host.find('@');
  const bool is_web = place.url.starts_with("http");  // there a name may be a token
  if (user != host.npos && (is_web || mentions(host.substr(0, user), ":"))) {
    return Error{
        "the URL holds a name or a password, which others could read; leave it to git's credential "
        "helper"};
  }
  return place;
}

Result<GitCode> GitCode::clone(const std::string& text) {
  const auto place = git_place(text);
  const std::string what = "cannot clone the code: ";
  if (!place) return Error{what + place.error().message};
  if (const Status own = own_repository(place->url); !own) {
    return Error{what + own.error().message};
  }
  std::error_code failure;
  std::string name = (fs::temp_directory_path(failure) / "muster-git-XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr) {
    return Error{what + "no temporary directory " + name + ": " + std::strerror(errno)};
  }
  GitCode code{fs::path(name)};
  const auto made = git(code.directory_, {"init", "--quiet", "--template="}, look_limit);
  auto commit = made ? fetch(code.directory_, *place) : made;
  if (commit) {
    const auto out =
        git(code.directory_, {"checkout", "--quiet", "--detach", *commit}, fetch_limit);
    if (!out) commit = out.error();
  }
  const Status links = commit ? no_links_out(code.directory_) : Status(Done{});
  if (!commit || !links) {
    return Error{what + place->url + ": " + (commit ? links.error() : commit.error()).message};
  }
  code.commit_ = *commit;
  return code;
}

GitCode::~GitCode() {
  std::error_code ignored;
  if (!directory_.empty()) fs::remove_all(directory_, ignored);
}

GitCode::GitCode(GitCode&& other) noexcept
    : directory_(std::exchange(other.directory_, {})), commit_(std::move(other.commit_)) {}

void require_runnable(const CheckedJob& job, const CommonOptions& common) {
  print_findings(job.file.findings, common);
  if (job.can_run) return;
  const bool is_cluster = job.file.kind == FileKind::cluster;
  throw VerbEnd(invalid_file,
                is_cluster ? "the file is a cluster, not a job; name it with --cluster" : "");
}

Result<CheckedJob> check_job(const CheckRequest& request, const CommonOptions& common) {
  auto text = read_input(request.path, max_file_bytes);
  if (!text) return text.error();
  CheckedJob job;
  std::vector<Finding> about_clusters;  // another file: after the job's own
  const std::string shown = request.path == "-" ? "<stdin>" : request.path;
  job.file = read_job_file(shown, *text, read_options(request.sets));
  job.text = std::move(*text);
  const bool is_command = job.file.kind == FileKind::command && job.file.tree != nullptr;
  if (request.for_running && is_command) {
    auto known = find_targets(common);
    if (!known && !has_errors(job.file.findings)) return known.error();
    append(job.file.findings, new_places(findings_for_running(job, known), job.file.findings));
    if (known) about_clusters = std::move(known->findings);
  }
  const bool is_fine = request.accept_resources && is_resource(job.file.kind);
  const bool other_job = !is_command && job.file.kind != FileKind::cluster && !is_fine;
  if (request.for_running && other_job) append(job.file.findings, cannot_run_yet(job.file));
  std::ranges::stable_sort(job.file.findings, {}, [](const Finding& each) {
    return std::tuple(each.order, each.line, each.column);
  });
  append(job.file.findings, std::move(about_clusters));
  const bool stopped = has_errors(job.file.findings) ||
                       (has_unresolved(job.file.findings) && !request.accept_unresolved);
  job.can_run = is_command && job.target.has_value() && !stopped;
  return job;
}

}  // namespace muster
