#include "launcher/agent/image/pull.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <thread>

#include "launcher/agent/node/process_scan.h"
#include "launcher/image/name.h"
#include "launcher/image/registry.h"
#include "launcher/os/private_directory.h"
#include "launcher/os/read_file.h"
#include "launcher/staging/beneath.h"
#include "launcher/staging/content_hash.h"
#include "launcher/staging/materialize.h"
#include "scheduler/text/number.h"
#include "scheduler/text/text.h"

namespace muster {

namespace {

namespace fs = std::filesystem;

constexpr std::chrono::milliseconds part_interval{20};
constexpr std::chrono::milliseconds wait_interval{500};  // for another job's pull

// Nothing: another has it, or errno says why it cannot be had.
std::optional<Fd> lock_of(const std::string& path) {
  Fd file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!file || ::flock(file.get(), LOCK_EX | LOCK_NB) != 0) return std::nullopt;
  return file;
}

// A process dies a moment after what started it: it may still make files.
void remove_part(const std::string& path) {
  constexpr int tries_most = 20;
  for (int i = 0; i < tries_most && !remove_tree(path); ++i) {
    std::this_thread::sleep_for(part_interval);
  }
}

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds look_interval{20};
constexpr int looks_between_reports = 25;

std::int64_t bytes_below(const std::string& directory) {
  std::int64_t bytes = 0;
  std::error_code failed;
  fs::recursive_directory_iterator at(directory, failed);
  for (; !failed && at != fs::recursive_directory_iterator(); at.increment(failed)) {
    std::error_code gone;
    const auto size = at->is_regular_file(gone) ? at->file_size(gone) : 0;
    if (!gone) bytes += static_cast<std::int64_t>(size);
  }
  return bytes;
}

// What changes while it moves. The size, not the place: that is the program's own.
std::string counters(pid_t child, const Fd& errors, std::int64_t filled) {
  struct stat facts {};
  ::fstat(errors.get(), &facts);
  std::string seen = std::to_string(facts.st_size) + " " + std::to_string(filled);
  for (const ProcessInfo& process : scan_processes()) {  // podman starts itself once more
    if (process.session != child) continue;
    seen += text_of_file("/proc/" + std::to_string(process.pid) + "/io");
  }
  return seen;
}

// False: it said nothing for too long, and was killed.
bool wait_for(pid_t child, const WatchedProgram& program, const Fd& errors, int& status) {
  std::string seen;
  auto moved_at = Clock::now();
  for (int looks = 1; ::waitpid(child, &status, WNOHANG) == 0; ++looks) {
    std::this_thread::sleep_for(look_interval);
    if (looks % looks_between_reports != 0) continue;
    const std::int64_t filled = program.fills.empty() ? 0 : bytes_below(program.fills);
    const std::string now = counters(child, errors, filled);
    if (now != seen) {
      seen = now;
      moved_at = Clock::now();
      if (program.on_moved) program.on_moved(filled);
    } else if (program.silence.count() > 0 && Clock::now() - moved_at > program.silence) {
      ::kill(-child, SIGKILL);
      ::waitpid(child, &status, 0);
      return false;
    }
  }
  return true;
}

}  // namespace

ImageFetch::ImageFetch(ImagePull wanted, std::string home,
                       std::map<std::string, std::string> environment, Tell tell)
    : wanted_(std::move(wanted)),
      directory_(images_in(home)),
      key_(content_hash_of(wanted_.name + "@" + wanted_.digest)),
      environment_(std::move(environment)),
      tell_(std::move(tell)) {}

Result<bool> ImageFetch::is_here(bool names_it) {
  const auto runtime = runtime_in(environment_["PATH"], wanted_.runtime);
  if (!runtime) return runtime.error();
  runtime_ = *runtime;
  if (has(name_on_node(wanted_.name, wanted_.digest))) return true;
  if (wanted_.digest.empty() || !keeps_images(runtime_)) return false;
  const std::string name = with_digest(wanted_.name, wanted_.digest);
  return has(name) && (!names_it || give_name(name));
}

std::string ImageFetch::place_of_images() {
  if (!keeps_images(runtime_)) return directory_;
  const bool is_podman = runtime_ == ContainerRuntime::podman;
  const char* const key = is_podman ? "{{.Store.GraphRoot}}" : "{{.DockerRootDir}}";
  return std::string(
      trimmed(run({is_podman ? "podman" : "docker", "info", "--format", key}).output));
}

std::optional<ImageFetch::Failure> ImageFetch::bring(const std::string& layout) {
  if (layout.empty() && is_of_no_registry(wanted_.name)) {
    return Failure{"the image " + wanted_.name + " is not on this node, and no registry has it",
                   true};
  }
  if (auto made = open_private_directory(directory_); !made) return Failure{made.error().message};
  std::optional<Fd> lock;
  while (!(lock = lock_of(directory_ + "/" + key_ + ".lock"))) {
    const bool is_held = errno == EWOULDBLOCK || errno == EINTR;
    if (!is_held) return Failure{system_error("lock " + key_).message};
    tell_("the image, which another job or node pulls on this host");
    std::this_thread::sleep_for(wait_interval);
  }
  const auto is_come = is_here();
  if (is_come && *is_come) return std::nullopt;
  const std::string part = directory_ + "/" + key_ + ".part";
  remove_part(part);
  if (::mkdir(part.c_str(), 0700) != 0) return Failure{system_error("make " + part).message};
  environment_["TMPDIR"] = part;
  auto failed = bring_alone(layout);
  remove_part(part);
  return failed;
}

std::optional<ImageFetch::Failure> ImageFetch::bring_alone(const std::string& layout) {
  const std::string& part = environment_["TMPDIR"];
  // docker reads a directory's config.json alone.
  if (::symlink("/dev/stdin", (part + "/config.json").c_str()) != 0) {
    return Failure{system_error("write below " + part).message};
  }
  ProgramEnd ended = fetch(pull_words(layout));
  if (ended.is_ok && !keeps_images(runtime_)) ended = unpack();
  const std::string from = layout.empty() ? " from the registry " + registry_of(wanted_.name) : "";
  const std::string what = "could not bring the image " + wanted_.name + from + ": ";
  if (!ended.is_ok) {
    const std::string words = plain_words(ended.errors);
    return Failure{what + (words.empty() ? "its program was killed" : words), is_about_image(words),
                   layout.empty() && is_about_connection(words)};
  }
  if (wanted_.digest.empty() || !keeps_images(runtime_)) return std::nullopt;
  const auto lines = last_utf8_lines(ended.output, 1);  // podman: the image's number
  const bool is_numbered = runtime_ == ContainerRuntime::podman && !lines.empty();
  const bool is_named = !is_numbered && !layout.empty();  // by skopeo
  const std::string name = is_numbered ? lines.front() : with_digest(wanted_.name, wanted_.digest);
  if (is_named || give_name(name)) return std::nullopt;
  return Failure{what + "it is not there after its pull"};
}

ProgramEnd ImageFetch::fetch(const Words& words) {
  return run_watched(
      {.argv = words,
       .environment = environment_,
       .input = wanted_.login,
       .fills = environment_.at("TMPDIR"),
       .on_moved = [this](std::int64_t come) { tell_(image_progress(come, wanted_.bytes)); }});
}

// Of the files that were fetched; apptainer has done it.
ProgramEnd ImageFetch::unpack() {
  const std::string& part = environment_.at("TMPDIR");
  ProgramEnd ended{true};
  if (runtime_ != ContainerRuntime::apptainer) {
    ended = fetch({"umoci", "unpack", "--rootless", "--image", part + "/oci:image", part + "/it"});
  }
  const std::string place = unpacked_image(directory_, name_on_node(wanted_.name, wanted_.digest));
  if (ended.is_ok && ::rename((part + "/it").c_str(), place.c_str()) != 0) {
    return {false, {}, system_error("make " + place).message};
  }
  return ended;
}

ImageFetch::Words ImageFetch::pull_words(const std::string& layout) const {
  const std::string name =
      wanted_.digest.empty() ? wanted_.name : with_digest(wanted_.name, wanted_.digest);
  const std::string& part = environment_.at("TMPDIR");
  const std::string source = layout.empty() ? "docker://" + name : "dir:" + layout;
  const bool has_login = !wanted_.login.empty();
  if (runtime_ == ContainerRuntime::apptainer) {
    Words words = {"apptainer", "--silent", "build", "--sandbox", part + "/it/rootfs", source};
    if (has_login) words.insert(words.end() - 2, {"--authfile", "/dev/stdin"});
    return words;
  }
  if (!keeps_images(runtime_)) {
    Words words = {"skopeo", "copy", "--quiet", source, "oci:" + part + "/oci:image"};
    if (has_login) words.insert(words.end() - 2, {"--src-authfile", "/dev/stdin"});
    return words;
  }
  const bool is_podman = runtime_ == ContainerRuntime::podman;
  if (!layout.empty() && !is_podman) {
    const std::string there = name_on_node(wanted_.name, wanted_.digest);
    return {"skopeo", "copy", "--quiet", source, "docker-daemon:" + there};
  }
  if (!layout.empty()) return {"podman", "pull", "--quiet", source};
  if (!has_login) return {is_podman ? "podman" : "docker", "pull", "--quiet", name};
  if (is_podman) return {"podman", "pull", "--quiet", "--authfile", "/dev/stdin", name};
  return {"docker", "--config", part, "pull", "--quiet", name};
}

bool ImageFetch::has(const std::string& name) {
  if (!keeps_images(runtime_)) return fs::exists(unpacked_image(directory_, name) + "/rootfs");
  if (runtime_ == ContainerRuntime::docker) return run({"docker", "image", "inspect", name}).is_ok;
  return run({"podman", "image", "exists", name}).is_ok;
}

// And under its own, for jobs that come while the registry cannot be asked.
bool ImageFetch::give_name(const std::string& name) {
  const char* const program = runtime_ == ContainerRuntime::docker ? "docker" : "podman";
  const bool is_tagged = digest_in(wanted_.name).empty() && !is_of_no_registry(wanted_.name);
  if (is_tagged && !run({program, "tag", name, wanted_.name}).is_ok) return false;
  return run({program, "tag", name, name_on_node(wanted_.name, wanted_.digest)}).is_ok;
}

ProgramEnd ImageFetch::run(const Words& words) {
  return run_watched({.argv = words, .environment = environment_});
}

std::string unpacked_image(const std::string& images, const std::string& name) {
  return images + "/" + content_hash_of(name);
}

Result<std::map<std::string, std::string>> variables_of_image(const std::string& unpacked) {
  std::map<std::string, std::string> variables;
  const std::string text = text_of_file(unpacked + "/config.json");
  if (text.empty()) return variables;
  try {
    const nlohmann::json config = nlohmann::json::parse(text);
    for (const nlohmann::json& each : config.at("process").at("env")) {
      const std::string entry = each.get<std::string>();
      const std::size_t equals = entry.find('=');
      if (equals != entry.npos) variables[entry.substr(0, equals)] = entry.substr(equals + 1);
    }
  } catch (const nlohmann::json::exception& broken) {
    return Error{unpacked + "/config.json: " + broken.what()};
  }
  return variables;
}

Status make_mount_points(const std::string& root,
                         const std::vector<std::pair<std::string, bool>>& points) {
  const Fd top(::open(root.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  for (const auto& [point, is_file] : points) {
    const std::string_view path = std::string_view(point).substr(1);
    const auto [directory, name] = split_last_component(path);
    Fd made = open_directory_beneath(top, is_file ? directory : path, true);
    if (made && is_file) made = open_file_beneath(top, path, O_RDONLY | O_CREAT, 0644);
    if (!made && is_file && errno == ELOOP) continue;  // a link of the image's own: it stays
    if (!made) return system_error("make " + point + " in the unpacked image");
  }
  return Done{};
}

void remove_left_image_parts(const std::string& home) {
  std::error_code failed;
  fs::directory_iterator at(images_in(home), failed);
  for (; !failed && at != fs::directory_iterator(); at.increment(failed)) {
    if (at->path().extension() != ".part") continue;
    fs::path lock = at->path();
    const auto held = lock_of(lock.replace_extension(".lock"));
    if (held) remove_part(at->path());
  }
}

std::string image_progress(std::int64_t come, std::int64_t all) {
  const bool is_large = std::max(come, all) >= 1'000'000'000;
  const double unit = is_large ? 1e9 : 1e6;
  const char* const name = is_large ? "GB" : "MB";
  if (come >= all && all > 0)
    return printed("image of %.1f %s, which is unpacked", all / unit, name);
  if (all == 0) return printed("image, %.1f %s of it", come / unit, name);
  return printed("image %.1f of %.1f %s", come / unit, all / unit, name);
}

ProgramEnd run_watched(const WatchedProgram& program) {
  constexpr int how = O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW;
  constexpr std::size_t last_lines = 20;
  const bool has_log = !program.log.empty();
  const Fd input = memory_file(program.input), output = memory_file();
  const Fd errors = has_log ? Fd(::open(program.log.c_str(), how, 0600)) : memory_file();
  SpawnRequest request{program.argv, program.environment, "/", input.get()};
  request.output = has_log ? errors.get() : output.get();
  request.errors = errors.get();
  const auto child = input && output && errors
                         ? spawn(request)
                         : Result<pid_t>(system_error("run " + program.argv[0]));
  if (!child) return {false, {}, child.error().message};
  int status = 0;
  if (!wait_for(*child, program, errors, status)) {
    const std::string silence = std::to_string(program.silence.count());
    return {false, {}, program.argv[0] + " did nothing for " + silence + " s"};
  }
  ProgramEnd end{WIFEXITED(status) && WEXITSTATUS(status) == 0, content_of(output), {}};
  const std::string said = content_of(errors);
  if (!has_log) end.errors = said;
  for (const auto& line : last_utf8_lines(said, has_log ? last_lines : 0)) {
    end.errors += line + "\n";
  }
  return end;
}

}  // namespace muster
