#include "launcher/agent/image/pull.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <thread>

#include "launcher/agent/node/spawn.h"
#include "launcher/image/name.h"
#include "launcher/image/registry.h"
#include "launcher/os/private_directory.h"
#include "launcher/os/read_file.h"
#include "launcher/staging/content_hash.h"
#include "launcher/staging/materialize.h"
#include "scheduler/text/number.h"
#include "scheduler/text/text.h"

namespace muster {

namespace {

namespace fs = std::filesystem;

constexpr std::chrono::milliseconds look_interval{20};
constexpr int looks_between_reports = 25;  // of half a second: a person reads it

std::string images_in(const std::string& home) {
  return home + "/images";
}

// Nothing: another has it.
std::optional<Fd> lock_of(const std::string& path) {
  Fd file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!file || ::flock(file.get(), LOCK_EX | LOCK_NB) != 0) return std::nullopt;
  return file;
}

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

std::string content_of(const Fd& file) {
  std::string text;
  ::lseek(file.get(), 0, SEEK_SET);
  read_whole(file.get(), text);
  return text;
}

Fd memory_file(const char* name, std::string_view text = {}) {
  Fd file(::memfd_create(name, MFD_CLOEXEC));
  const bool is_whole =
      file && write_all(file.get(), text) && ::lseek(file.get(), 0, SEEK_SET) == 0;
  return is_whole ? std::move(file) : Fd();
}

// A process dies a moment after what started it: it may still make files.
void remove_part(const std::string& path) {
  constexpr int tries_most = 20;
  for (int i = 0; i < tries_most && !remove_tree(path); ++i) {
    std::this_thread::sleep_for(look_interval);
  }
}

}  // namespace

ImageFetch::ImageFetch(ImagePull wanted, std::string home,
                       std::map<std::string, std::string> environment, Tell tell)
    : wanted_(std::move(wanted)),
      directory_(images_in(home)),
      key_(content_hash_of(wanted_.name + "@" + wanted_.digest)),
      environment_(std::move(environment)),
      tell_(std::move(tell)) {}

Result<bool> ImageFetch::is_here() {
  const auto runtime = runtime_in(environment_["PATH"]);
  if (!runtime) return runtime.error();
  runtime_ = *runtime;
  if (has(name_on_node(wanted_.name, wanted_.digest))) return true;
  if (wanted_.digest.empty()) return false;
  const std::string name = with_digest(wanted_.name, wanted_.digest);
  return has(name) && give_name(name);
}

std::optional<ImageFetch::Failure> ImageFetch::bring(const std::string& layout) {
  if (layout.empty() && is_of_no_registry(wanted_.name)) {
    return Failure{"the image " + wanted_.name + " is not on this node, and no registry has it",
                   true};
  }
  if (auto made = open_private_directory(directory_); !made) return Failure{made.error().message};
  std::optional<Fd> lock;
  while (!(lock = lock_of(directory_ + "/" + key_ + ".lock"))) {
    tell_("the image, which another job pulls");
    std::this_thread::sleep_for(look_interval * looks_between_reports);
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
  const Ended ended = run(pull_words(layout), true);
  const std::string from = layout.empty() ? " from the registry " + registry_of(wanted_.name) : "";
  const std::string what = "could not bring the image " + wanted_.name + from + ": ";
  if (!ended.is_ok) {
    const std::string words = plain_words(ended.errors);
    return Failure{what + (words.empty() ? "its program was killed" : words),
                   is_about_image(words)};
  }
  if (wanted_.digest.empty()) return std::nullopt;
  const auto lines = last_utf8_lines(ended.output, 1);  // podman: the image's number
  const bool is_numbered = runtime_ == ContainerRuntime::podman && !lines.empty();
  const bool is_named = !is_numbered && !layout.empty();  // by skopeo
  const std::string name = is_numbered ? lines.front() : with_digest(wanted_.name, wanted_.digest);
  if (is_named || give_name(name)) return std::nullopt;
  return Failure{what + "it is not there after its pull"};
}

ImageFetch::Words ImageFetch::pull_words(const std::string& layout) const {
  const std::string name =
      wanted_.digest.empty() ? wanted_.name : with_digest(wanted_.name, wanted_.digest);
  const bool is_podman = runtime_ == ContainerRuntime::podman;
  const std::string source = "dir:" + layout;
  if (!layout.empty() && !is_podman) {
    return {"skopeo", "copy", "--quiet", source,
            "docker-daemon:" + name_on_node(wanted_.name, wanted_.digest)};
  }
  if (!layout.empty()) return {"podman", "pull", "--quiet", source};
  if (wanted_.login.empty()) return {is_podman ? "podman" : "docker", "pull", "--quiet", name};
  if (is_podman) return {"podman", "pull", "--quiet", "--authfile", "/dev/stdin", name};
  return {"docker", "--config", environment_.at("TMPDIR"), "pull", "--quiet", name};
}

bool ImageFetch::has(const std::string& name) {
  if (runtime_ == ContainerRuntime::docker)
    return run({"docker", "image", "inspect", name}, false).is_ok;
  return run({"podman", "image", "exists", name}, false).is_ok;
}

bool ImageFetch::give_name(const std::string& name) {
  const char* const program = runtime_ == ContainerRuntime::docker ? "docker" : "podman";
  return run({program, "tag", name, name_on_node(wanted_.name, wanted_.digest)}, false).is_ok;
}

// Dies with this process.
ImageFetch::Ended ImageFetch::run(const Words& words, bool is_watched) {
  const Fd input = memory_file("input", is_watched ? wanted_.login : "");
  const Fd output = memory_file("output"), errors = memory_file("errors");
  SpawnRequest request;
  request.argv = words;
  request.environment = environment_;
  request.directory = "/";
  request.input = input.get();
  request.output = output.get();
  request.errors = errors.get();
  const auto child = input && output && errors ? spawn(request) : system_error("run " + words[0]);
  if (!child) return {false, {}, child.error().message};
  int status = 0;
  for (int looks = 1; ::waitpid(*child, &status, WNOHANG) == 0; ++looks) {
    std::this_thread::sleep_for(look_interval);
    if (!is_watched || looks % looks_between_reports != 0) continue;
    report(text_of_file("/proc/" + std::to_string(*child) + "/io") +
               std::to_string(::lseek(errors.get(), 0, SEEK_END)),
           bytes_below(environment_["TMPDIR"]));
  }
  return {WIFEXITED(status) && WEXITSTATUS(status) == 0, content_of(output), content_of(errors)};
}

// Nothing is told of a pull that does not move: it has a limit.
void ImageFetch::report(const std::string& counters, std::int64_t come) {
  std::string seen = counters + " " + std::to_string(come);
  if (seen == seen_) return;
  seen_ = std::move(seen);
  tell_(image_progress(come, wanted_.bytes));
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
  constexpr double mega = 1e6, giga = 1e9;
  const bool is_large = std::max(come, all) >= std::int64_t{1'000'000'000};
  const double unit = is_large ? giga : mega;
  const char* const name = is_large ? "GB" : "MB";
  if (come >= all && all > 0)
    return printed("image of %.1f %s, which is unpacked", all / unit, name);
  if (all == 0) return printed("image, %.1f %s of it", come / unit, name);
  return printed("image %.1f of %.1f %s", come / unit, all / unit, name);
}

}  // namespace muster
