#include "cli/image/image_files.h"

#include <fcntl.h>
#include <sys/file.h>

#include <filesystem>
#include <limits>

#include "cli/image/image.h"
#include "cli/terminal/terminal.h"
#include "launcher/agent/image/program.h"
#include "launcher/image/dockerfile.h"
#include "launcher/image/name.h"
#include "launcher/image/registry.h"
#include "launcher/os/read_file.h"
#include "launcher/staging/content_hash.h"
#include "launcher/staging/materialize.h"
#include "launcher/staging/snapshot.h"
#include "launcher/staging/trees_file.h"
#include "scheduler/text/text.h"

namespace muster {

namespace {

namespace fs = std::filesystem;

// A compiler may be silent for long; a registry's connection that is, is dead.
constexpr std::chrono::minutes build_silence{60};
constexpr std::chrono::minutes copy_silence{5};

ProgramEnd run_here(std::vector<std::string> words) {
  return run_watched({.argv = std::move(words), .environment = own_environment()});
}

std::string text_or_end(const fs::path& path) {
  const std::string text = text_of_file(path);
  if (!text.empty()) return text;
  throw VerbEnd(invalid_file, "environment: cannot read " + path.string());
}

void put_file(const fs::path& path, const std::string& text) {
  if (!replace_file(path, text, 0600, Durable::in_cache)) {
    throw VerbEnd(internal_error, system_error("write " + path.string()).message);
  }
}

// The bases by their digests, so that the same hash is the same image.
std::map<std::string, std::string> pinned_bases(const std::vector<std::string>& bases,
                                                const ImageSettings& images,
                                                const CommonOptions& common) {
  std::map<std::string, std::string> pinned;
  for (const std::string& base : bases) {
    EnvironmentSpec one;
    one.image = base;
    if (!is_image_allowed(whole_image_name(base), images.allow)) {
      throw VerbEnd(invalid_file, "environment.build: FROM " + base +
                                      " is not allowed by containers.allow of the cluster file: " +
                                      joined(images.allow));
    }
    pin_image(one, images, common);
    pinned[base] = one.digest.empty() ? one.pull_name : with_digest(one.pull_name, one.digest);
  }
  return pinned;
}

// The image as files, in `directory`.
std::vector<std::string> copy_words(const EnvironmentSpec& environment, bool is_built,
                                    const std::string& directory) {
  if (is_built) {
    return {"podman", "push", "--quiet", "--compress", environment.image, "dir:" + directory};
  }
  return {"skopeo", "copy", "--quiet",
          "docker://" + with_digest(environment.pull_name, environment.digest), "dir:" + directory};
}

void copy_image(const EnvironmentSpec& environment, bool is_built, const std::string& directory,
                const CommonOptions& common) {
  if (!is_built) {
    notice(
        "image " + environment.pull_name + " is fetched from " + registry_of(environment.pull_name),
        common);
  }
  or_end(remove_tree(directory));
  const ProgramEnd ended = run_watched({.argv = copy_words(environment, is_built, directory),
                                        .environment = own_environment(),
                                        .fills = directory,
                                        .silence = copy_silence});
  if (ended.is_ok) return;
  const std::string words = plain_words(ended.errors);
  throw VerbEnd(is_about_image(words) ? invalid_file : internal_error,
                "cannot fetch the image " + environment.pull_name + ": " + words);
}

// What it says stays when it fails.
void podman_build(const ImageBuild& build, const Home& home, const CommonOptions& common) {
  const std::string hash = build.name.substr(build.name.rfind(':') + 1);
  const fs::path place = home.root / "images" / (hash + ".build");
  const std::string log = place.string() + ".log";
  fs::create_directories(place);
  fs::remove(log);
  put_file(place / "Dockerfile", build.dockerfile);
  if (!build.conda.empty()) put_file(place / "conda.yml", build.conda);
  const std::string context = build.context.empty() ? place.string() : build.context;
  notice("image is built of " + context + "; what podman says: " + log, common);
  const ProgramEnd ended = run_watched(
      {.argv = {"podman", "build", "--timestamp", "0", "--isolation", "chroot", "--network", "host",
                "--tag", build.name, "--file", (place / "Dockerfile").string(), context},
       .environment = own_environment(),
       .log = log,
       .silence = build_silence});
  if (!ended.is_ok) {
    throw VerbEnd(invalid_file, "the image was not built; the end of " + log + ":\n" +
                                    without_controls(ended.errors));
  }
}

// Of two submissions at once the second finds what the first has brought.
Fd lock_of_image(const fs::path& path) {
  Fd lock(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (lock && ::flock(lock.get(), LOCK_EX) == 0) return lock;
  throw VerbEnd(internal_error, system_error("lock " + path.string()).message);
}

}  // namespace

std::optional<ImageBuild> plan_build(const EnvironmentSpec& environment,
                                     const ImageSettings& images, const CommonOptions& common) {
  const bool is_conda = !environment.conda_file.empty();
  if (environment.build_path.empty() && !is_conda) return std::nullopt;
  ImageBuild build{environment.build_path};
  std::string written;
  if (is_conda) {
    const bool is_path = environment.conda_file.starts_with('/');
    build.conda = is_path ? text_or_end(environment.conda_file) : environment.conda_file;
    written = conda_dockerfile(environment.image);
  } else {
    written = text_or_end(fs::path(build.context) / environment.dockerfile_path);
  }
  const auto bases = pinned_bases(base_images(written), images, common);
  for (const auto& [base, pinned] : bases) build.bases.push_back(pinned);
  build.dockerfile = with_base_images(written, bases);
  const auto hash =
      is_conda ? Result<std::string>(content_hash_of(build.dockerfile + '\0' + build.conda))
               : build_hash(build.context, build.dockerfile);
  build.name = "localhost/muster/build:" + or_end(hash, invalid_file);
  return build;
}

void build_image(const ImageBuild& build, EnvironmentSpec& environment, const Home& home,
                 const CommonOptions& common) {
  environment.image = environment.pull_name = build.name;
  if (!run_here({"podman", "image", "exists", build.name}).is_ok) podman_build(build, home, common);
  const ProgramEnd told =
      run_here({"podman", "image", "inspect", "--format", "{{.Digest}}", build.name});
  environment.digest = trimmed(told.output);
  const bool is_named =
      is_image_digest(environment.digest) &&
      run_here({"podman", "tag", build.name, name_on_node(build.name, environment.digest)}).is_ok;
  if (!is_named) throw VerbEnd(internal_error, "the image that was built is not there");
}

// Kept by its digest: the same image is copied once.
std::optional<Tree> image_tree(EnvironmentSpec& environment, bool is_built, const Home& home,
                               const ComputeTarget& target, const ImageSettings& images,
                               const CommonOptions& common) {
  const bool is_wanted = is_built ? !is_this_host(target) : images.pull == ImageBringer::controller;
  if (!is_wanted || environment.digest.empty()) return std::nullopt;
  const auto store = or_end(BlobStore::open(home.blobs()));
  const std::string key = replaced(environment.digest, ":", "-");
  const fs::path directory = home.root / "images" / key;
  fs::create_directories(directory.parent_path());
  const fs::path list = directory.string() + ".json";
  const Fd lock = lock_of_image(directory.string() + ".lock");
  auto known = load_trees(list);
  if (!known || known->size() != 1 || !missing_blobs(*known, store).empty()) {
    copy_image(environment, is_built, directory.string(), common);
    SnapshotRequest request{.source = directory, .place = ImagePull::place, .writable = false};
    request.honour_ignore_files = false;
    request.warn_above_bytes = std::numeric_limits<std::int64_t>::max();
    known = std::vector<Tree>{or_end(take_snapshot(request, store)).tree};
    or_end(remove_tree(directory));
    or_end(save_trees(list, *known));
  }
  std::int64_t bytes = 0;
  for (const TreeEntry& entry : known->front().entries) bytes += entry.size_bytes;
  environment.image_bytes = bytes;
  return known->front();
}

}  // namespace muster
