// The part of LocalAttempt for jobs with an image: the ranks run in one container on this node.
#include <fcntl.h>
#include <link.h>

#include <algorithm>
#include <filesystem>

#include "launcher/agent/attempt/attempt.h"
#include "launcher/agent/image/pull.h"
#include "launcher/agent/keeper/files.h"
#include "launcher/agent/node/log.h"
#include "launcher/agent/node/spawn.h"
#include "launcher/image/registry.h"
#include "launcher/os/child.h"
#include "launcher/os/private_directory.h"
#include "launcher/os/read_file.h"
#include "scheduler/text/text.h"

namespace muster {

// An image runs as root, as on Azure, which Open MPI has to be told.
Environment LocalAttempt::base() const {
  if (!has_image()) return base_environment(site_.environment);
  Environment base = image_variables_;
  base["OMPI_ALLOW_RUN_AS_ROOT"] = base["OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"] = "1";
  if (has_own_user()) base["HOME"] = layout_.job;
  return base;
}

// muster itself in the container, whatever C library that has: it brings the host's. In the
// directory that is /muster there.
constexpr const char* program_there = "/muster/muster";
constexpr const char* libraries_there = "/muster-lib/";

// The program and its libraries, with their paths in the container, the loader among them.
std::vector<std::pair<std::string, std::string>> LocalAttempt::program_files() {
  std::vector<std::pair<std::string, std::string>> files;
  const auto add = [](dl_phdr_info* loaded, std::size_t, void* all) {
    const std::string path = loaded->dlpi_name;  // by the name that the loader looks for
    const std::string name = path.substr(path.rfind('/') + 1);
    const std::string there = libraries_there + (name.starts_with("ld-") ? "loader" : name);
    if (path.starts_with('/')) static_cast<decltype(&files)>(all)->emplace_back(path, there);
    return 0;
  };
  ::dl_iterate_phdr(add, &files);
  files.emplace_back(self_exe(), std::string(libraries_there) + "muster");
  return files;
}

// Looked for once: every rank's environment asks.
const Result<ContainerRuntime>& LocalAttempt::runtime() const {
  if (!runtime_)
    runtime_ = runtime_in(base_environment(site_.environment)["PATH"], start_->runtime);
  return *runtime_;
}

// docker's daemon is root's: who is not runs as himself, whom the image does not know. So does he
// where no daemon is.
bool LocalAttempt::has_own_user() const {
  return ::geteuid() != 0 && runtime() && *runtime() != ContainerRuntime::podman;
}

Status LocalAttempt::add_user(const std::string& directory, ContainerPlace& place) const {
  const std::string user = std::to_string(::geteuid());
  const std::string group = std::to_string(::getegid());
  const std::string passwd = "root:x:0:0:root:/root:/bin/sh\nuser:x:" + user + ":" + group +
                             "::" + layout_.job + ":/bin/sh\n";
  for (const auto& [name, text] :
       {std::pair("passwd", passwd), std::pair("group", "root:x:0:\nuser:x:" + group + ":\n")}) {
    const std::string path = directory + "/" + name;
    if (!replace_file(path, text, 0644, Durable::in_cache)) return system_error("write " + path);
    place.files.emplace_back(path, std::string("/etc/") + name);
  }
  return Done{};
}

// In place of self_exe(), for what is started with the ranks.
std::string LocalAttempt::own_program() const {
  return has_image() ? program_there : self_exe();
}

std::set<pid_t> LocalAttempt::members() const {
  std::set<pid_t> all = in_container_.list();
  if (group_) all.merge(group_->members());
  return all;
}

Result<pid_t> LocalAttempt::start_beside(const SpawnRequest& request) {
  if (has_image() && !container_) return Error{"the container is not there"};
  return container_ ? container_->start(request) : spawn(request);
}

std::string LocalAttempt::container_name() const {
  return "muster-" + replaced(token_of(site_.run, key_), ".", "-");
}

std::string LocalAttempt::container_log() const {
  return layout_.spool + "/container.log";
}

// A program of the runtime's, in the host's environment, whose words go to the log.
Result<pid_t> LocalAttempt::run_runtime(const Words& words) {
  SpawnRequest request;
  const Fd log(::open(container_log().c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
  if (!log) return system_error("open " + container_log());
  request.argv = words;
  request.environment = base_environment(site_.environment);
  request.environment.emplace("USER", std::to_string(::geteuid()));  // charliecloud asks
  request.directory = "/";
  request.output = request.errors = log.get();
  const auto pid = site_.processes.start(request);
  if (!pid) return pid;
  runtime_process_ = *pid;
  sessions_.insert(*pid);
  return pid;
}

// Its variables are for what runs in it, not for the runtime.
Status LocalAttempt::find_unpacked(ContainerPlace& place) {
  const std::string unpacked = unpacked_image(images_in(site_.run.home), start_->image);
  place.root = unpacked + "/rootfs";
  auto variables = variables_of_image(unpacked);
  if (!variables) return variables.error();
  image_variables_ = std::move(*variables);
  image_variables_["PATH"] = base_environment(image_variables_)["PATH"];
  return make_mount_points(place.root, mount_points(place));
}

// What the ranks are told of, by the same paths as on the host: the runtime fails on those that do
// not exist, and what is made in the container would go with it.
std::vector<std::string> LocalAttempt::mounts() const {
  std::vector<std::string> all = {site_.run.path, layout_.job};
  const auto add = [&all](const std::string& path) {
    const auto holds = [&](const std::string& held) {
      return (path + "/").starts_with(held + "/");
    };
    if (path.size() > 1 && path[0] == '/' && std::ranges::none_of(all, holds)) all.push_back(path);
  };
  for (const std::string& directory : {start_->checkpoint_path, start_->shared_outputs}) {
    std::error_code ignored;
    if (!directory.empty()) std::filesystem::create_directories(directory, ignored);
    add(directory);
  }
  if (start_->mpi) add(layout_.mpi_scratch);
  for (const auto& [name, path] : paths_.outputs) {
    add(std::filesystem::path(path).parent_path().string());
  }
  return all;
}

// Inputs, in the cache of data or where they are, and what outputs lead to in a mount. An input in
// which an output lies is written to.
std::vector<std::string> LocalAttempt::read_only_mounts(std::vector<std::string>& writable) const {
  namespace fs = std::filesystem;
  std::vector<std::string> all;
  const auto add = [&](const std::string& path) {
    const auto is_in = [](const std::string& inner, const std::string& outer) {
      return (inner + "/").starts_with(outer + "/");
    };
    // Not through a link: behind it may be a mount whose store is away.
    if (path.size() < 2 || path[0] != '/' || !fs::exists(fs::symlink_status(path))) return;
    if (std::ranges::any_of(writable, [&](const auto& held) { return is_in(path, held); })) return;
    const bool is_written =
        std::ranges::any_of(writable, [&](const auto& held) { return is_in(held, path); });
    (is_written ? writable : all).push_back(path);
  };
  for (const auto& [name, path] : paths_.inputs) {
    std::error_code failure;
    const fs::path tree = fs::read_symlink(layout_.inputs + "/" + name, failure);
    add(failure ? path : tree.string());
  }
  for (const auto& [name, path] : paths_.outputs) {
    std::error_code failure;
    const fs::path mount = fs::read_symlink(layout_.job + "/.mounted/" + name, failure);
    add(failure ? "" : mount.string());
  }
  std::ranges::sort(all);
  all.erase(std::ranges::unique(all).begin(), all.end());
  return all;
}

Status LocalAttempt::begin_container() {
  const std::string directory = layout_.spool + "/hold";
  if (auto made = open_private_directory(directory); !made) return made.error();
  auto holder = Holder::prepare(directory);
  if (!holder) return holder.error();
  ContainerPlace place{start_->image, container_name(), start_->shm_size, directory};
  place.mounts = mounts();
  place.files = program_files();
  for (const std::string& path : read_only_mounts(place.mounts)) {
    place.files.emplace_back(path, path);
  }
  const std::string script =
      "#!/bin/sh\nexec /muster-lib/loader --library-path /muster-lib "
      "--argv0 \"$0\" /muster-lib/muster \"$@\"\n";
  if (!replace_file(directory + "/muster", script, 0755, Durable::in_cache)) {
    return system_error("write " + directory + "/muster");
  }
  place.has_gpus = path_exists("/dev/nvidiactl");
  place.has_infiniband = path_exists("/dev/infiniband");
  const auto& found = runtime();
  if (!found) return found.error();
  if (has_own_user() && *found == ContainerRuntime::docker) {
    if (Status added = add_user(directory, place); !added) return added;
  }
  if (!keeps_images(*found)) {
    if (Status whole = find_unpacked(place); !whole) return whole;
  }
  had_container_ = true;
  const auto begun = run_runtime(run_words(*found, place));
  if (!begun) return begun.error();
  container_ = std::make_shared<Container>(site_.io, std::move(*holder));
  container_->watch({[this](pid_t first) { container_ready(first); },
                     [this](const Holder::Ended& ended) {
                       site_.on_dead({ended.pid, ended.wait_status, raw_time(), raw_time()});
                     },
                     [this] { container_gone(); }});
  return Done{};
}

void LocalAttempt::container_ready(pid_t holder) {
  auto processes = ContainerProcesses::of(holder, layout_.spool, site_.boot_id);
  if (!processes) return told_to_start(processes.error());
  in_container_ = std::move(*processes);
  told_to_start(stop_.is_idle() ? launch_ranks() : Error{"the attempt was stopped before"});
}

// Something of the image stands where the agent's directories are to be mounted.
static bool is_in_the_way(const std::string& said) {
  return said.find("mounting") != std::string::npos &&
         (said.find("not a directory") != std::string::npos ||
          said.find("many levels of symbolic links") != std::string::npos);
}

// Before it was there, or with all that was in it.
void LocalAttempt::container_gone() {
  if (!is_told_) {
    const std::string said = text_of_file(container_log());
    std::string words;
    for (const std::string& line : last_utf8_lines(said, 3)) words += ": " + line;
    fails_everywhere_ = is_about_image(words) || is_in_the_way(words);
    return told_to_start(Error{"the container of " + start_->image + " did not start" + words});
  }
  for (auto& [id, rank] : ranks_) {
    if (!rank.exit) rank_ended(ended_by_now(id, ExitStatus{0, SIGKILL}));
  }
}

// Nobody waits for it when all others have ended.
void LocalAttempt::end_holder_alone() {
  if (!container_ || !stop_.is_active() || stop_.is_in_grace() || !container_->is_ready()) return;
  if (in_container_.list().size() > 1) return;
  container_->forget();
  container_.reset();
}

// Its processes are gone, by our own proof; what the runtime keeps of it goes too. It is waited
// for, but not for ever.
void LocalAttempt::remove_container() {
  constexpr std::chrono::seconds removal_limit{20};
  constexpr int removals_most = 3;
  if (!had_container_) return;
  had_container_ = false;
  if (container_) container_->forget();
  container_.reset();
  removal_until_ = site_.clock.steady() + removal_limit;
  removals_left_ = removals_most;
  begin_removal();
}

void LocalAttempt::begin_removal() {
  --removals_left_;
  const auto& found = runtime();
  const Words words = found ? remove_words(*found, container_name()) : Words{};
  if (words.empty()) return;
  const auto begun = run_runtime(words);
  if (!begun) log_line("container " + container_name() + ": " + begun.error().message);
}

// podman fails the first time when its monitor was killed: it looks for how the container ended.
void LocalAttempt::runtime_ended(bool is_ok) {
  runtime_process_.reset();
  if (container_ && !container_->is_ready()) return container_gone();
  if (!is_ok && removals_left_ > 0) begin_removal();
}

bool LocalAttempt::is_removing_container() const {
  return runtime_process_ && site_.clock.steady() < removal_until_;
}

}  // namespace muster
