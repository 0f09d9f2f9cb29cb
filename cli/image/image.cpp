#include "cli/image/image.h"

#include <fcntl.h>
#include <sys/file.h>

#include <filesystem>
#include <limits>

#include "cli/client/targets.h"
#include "cli/data/catalogue.h"
#include "cli/terminal/terminal.h"
#include "launcher/agent/image/pull.h"
#include "launcher/image/name.h"
#include "launcher/image/registry.h"
#include "launcher/os/read_file.h"
#include "launcher/staging/content_hash.h"
#include "launcher/staging/materialize.h"
#include "launcher/staging/snapshot.h"
#include "launcher/staging/trees_file.h"
#include "scheduler/text/duration.h"
#include "scheduler/text/number.h"
#include "scheduler/text/pattern.h"
#include "scheduler/text/spelling.h"
#include "scheduler/text/text.h"
#include "templates/parse_file.h"
#include "templates/yaml/node.h"

namespace muster {

namespace {

constexpr std::string_view host_word = "host";
constexpr const char* host_reference = "azureml:host";
constexpr std::string_view curated_prefix = "AzureML-";

// What stands behind "/key/" in an address; empty: it has no such part.
std::string part_behind(std::string_view address, const std::string& key) {
  const std::size_t at = address.find("/" + key + "/");
  if (at == address.npos) return {};
  const std::string_view rest = address.substr(at + key.size() + 2);
  return std::string(rest.substr(0, rest.find('/')));
}

std::string by_cluster_file(const EnvironmentName& name, const ImageSettings& images) {
  const auto& known = images.environments;
  for (const std::string& key : {name.name + ":" + name.version, name.name}) {
    if (const auto found = known.find(key); found != known.end()) return found->second;
  }
  for (const auto& [pattern, image] : known) {
    if (fits_pattern(pattern, name.name)) return image;
  }
  return {};
}

EnvironmentSpec by_catalogue(const EnvironmentName& name, const Home& home) {
  const Catalogue catalogue(home, Catalogue::Kind::environment);
  const auto entry = catalogue.find(name.name, name.version);
  if (!entry) return {};
  return read_job_file(name.name + ".yml", entry->text, read_options({})).spec.environment;
}

// A name near one of the catalogue, or a version that its name does not have.
std::string misspelt(const EnvironmentName& name, const Home& home) {
  const Catalogue catalogue(home, Catalogue::Kind::environment);
  const auto entry = catalogue.find(name.name, name.version);
  const auto names = catalogue.names();
  const bool is_known = std::ranges::find(names, name.name) != names.end();
  const bool is_near = is_known || !did_you_mean(name.name, names).empty();
  return name.registry.empty() && !entry && is_near ? entry.error().message : "";
}

bool is_something(const EnvironmentSpec& environment) {
  return !environment.image.empty() || !environment.build_path.empty();
}

// A registry answers within a second, a proxy in front of a dead one within ten or so; a person
// waits for this.
constexpr Milliseconds registry_limit{20'000};
constexpr Milliseconds helper_limit{20'000};  // one that asks a cloud for a token

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
std::map<std::string, std::string> pin_bases(ImageBuild& build, const ImageSettings& images,
                                             const CommonOptions& common) {
  std::map<std::string, std::string> pinned;
  for (const std::string& base : build.bases) {
    EnvironmentSpec one;
    one.image = base;
    if (!is_image_allowed(whole_image_name(base), images.allow)) {
      throw VerbEnd(invalid_file, "environment.build: FROM " + base +
                                      " is not allowed by containers.allow of the cluster file: " +
                                      joined(images.allow));
    }
    pin_image(one, images, common);
    pinned[base] = one.digest.empty() ? one.pull_name : with_digest(one.pull_name, one.digest);
    build.base_bytes += one.image_bytes;
  }
  build.bases.clear();
  for (const auto& [base, name] : pinned) build.bases.push_back(name);
  return pinned;
}

// The image as files, in `directory`.
void copy_image(const EnvironmentSpec& environment, bool is_built, const std::string& directory,
                const CommonOptions& common) {
  const std::string& name = environment.pull_name;
  std::vector<std::string> words = {"podman", "push", "--quiet", "--compress", environment.image};
  if (!is_built) {
    words = {"skopeo", "copy", "--quiet", "docker://" + with_digest(name, environment.digest)};
    notice("image " + name + " is fetched from " + registry_of(name), common);
  }
  words.push_back("dir:" + directory);
  or_end(remove_tree(directory));
  const ProgramEnd ended = run_watched({.argv = words,
                                        .environment = own_environment(),
                                        .fills = directory,
                                        .silence = copy_silence});
  if (ended.is_ok) return;
  const std::string said = plain_words(ended.errors);
  throw VerbEnd(is_about_image(said) ? invalid_file : internal_error,
                "cannot fetch the image " + name + ": " + said);
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
  const auto podman = [&](std::vector<std::string> argv) {
    argv.insert(argv.begin(), "podman");
    return run_watched({.argv = std::move(argv),
                        .environment = own_environment(),
                        .log = log,
                        .silence = build_silence});
  };
  // The build itself pulls nothing: what is not among the bases, which the site allows, is missing.
  ProgramEnd ended{.is_ok = true};
  for (const std::string& base : build.bases) {
    const bool is_here = is_of_no_registry(base) || podman({"image", "exists", base}).is_ok;
    if (!is_here && ended.is_ok) ended = podman({"pull", "--quiet", base});
  }
  if (ended.is_ok) {
    ended =
        podman({"build", "--pull=never", "--timestamp", "0", "--isolation", "chroot", "--network",
                "host", "--tag", build.name, "--file", (place / "Dockerfile").string(), context});
  }
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

EnvironmentName environment_name(std::string_view reference) {
  if (mentions(reference, "/environments/")) {
    EnvironmentName name{part_behind(reference, "environments"), part_behind(reference, "versions"),
                         part_behind(reference, "registries")};
    const std::string label = part_behind(reference, "labels");
    if (name.version.empty() && !label.empty()) name.version = "@" + label;
    return name;
  }
  if (reference.starts_with("azureml:"))
    reference.remove_prefix(std::string_view("azureml:").size());
  auto [name, version] = split_reference(reference);
  return {std::move(name), std::move(version)};
}

std::string curated_image(const EnvironmentName& name) {
  std::string_view plain = name.name;
  const bool is_marked = plain.starts_with(curated_prefix);
  if (is_marked) plain.remove_prefix(curated_prefix.size());
  if ((!is_marked && name.registry != "azureml") || plain.empty()) return {};
  const bool is_number = is_made_of(name.version, "0123456789");
  return "mcr.microsoft.com/azureml/curated/" + lower_case(plain) + ":" +
         (is_number ? name.version : "latest");
}

std::vector<Finding> resolve_environment(JobFile& job, const ImageSettings& images,
                                         const Home& home) {
  EnvironmentSpec& environment = job.spec.environment;
  const std::string reference = environment.reference;
  if (reference.empty() || reference == host_reference) return {};
  const EnvironmentName name = environment_name(reference);
  std::string image = by_cluster_file(name, images);
  EnvironmentSpec kept;
  if (image.empty() && name.registry.empty()) kept = by_catalogue(name, home);
  if (image.empty() && !is_something(kept)) image = curated_image(name);
  if (image == host_word) {
    environment.reference = host_reference;
  } else if (!image.empty()) {
    environment.image = image;
  } else if (is_something(kept)) {
    environment = kept;
    environment.reference = reference;
  } else if (const std::string why = misspelt(name, home); !why.empty()) {
    return {finding_about(job, Severity::error, "environment", "environment: " + why)};
  } else if (images.refuses_unknown_environments) {
    return {finding_about(job, Severity::error, "environment",
                          "environment: there is no environment " + quoted_text(reference) +
                              "; name its image in 'environments' of the cluster file, or add it "
                              "with `muster environment create`")};
  }
  return {};
}

std::string environment_text(const JobFile& file) {
  YamlNode tree = *file.tree;
  const EnvironmentSpec& environment = file.spec.environment;
  if (YamlNode* conda = tree.find("conda_file"); conda && conda->kind == YamlNode::Kind::scalar) {
    *conda = scalar_node(environment.conda_file, conda->place, true);
  }
  YamlNode* build = tree.find("build");
  for (const char* key : {"path", "local_path"}) {
    YamlNode* path = build ? build->find(key) : nullptr;
    if (path) *path = scalar_node(environment.build_path, path->place, true);
  }
  return write_yaml(tree);
}

std::vector<Finding> image_findings(const JobFile& job, const ImageSettings& images) {
  const std::string& image = job.spec.environment.image;
  if (image.empty() || is_image_allowed(whole_image_name(image), images.allow)) return {};
  return {finding_about(
      job, Severity::error, "environment.image",
      "environment.image: " + quoted_text(whole_image_name(image)) +
          " is not allowed by containers.allow of the cluster file: " + joined(images.allow))};
}

void pin_image(EnvironmentSpec& environment, const ImageSettings& images,
               const CommonOptions& common) {
  if (environment.image.empty()) return;
  environment.runtime = images.runtime;
  const std::string whole = mirrored(whole_image_name(environment.image), images.mirrors);
  environment.pull_name = whole;
  environment.digest = digest_in(whole);
  const bool is_wrong = !environment.digest.empty() && !is_image_digest(environment.digest);
  if (is_wrong) {
    throw VerbEnd(invalid_file, "environment.image: " + quoted_text(environment.digest) +
                                    " is not a digest: sha256: and 64 hex digits");
  }
  if (is_of_no_registry(whole) || !environment.digest.empty()) return;
  const RegistryAnswer answer = ask_registry(whole, registry_limit);
  if (const auto* refused = std::get_if<ImageRefused>(&answer)) {
    throw VerbEnd(invalid_file, "environment.image: " + refused->why);
  }
  if (const auto* found = std::get_if<RegistryImage>(&answer)) {
    environment.digest = found->digest;
    environment.image_bytes = found->bytes;
    return;
  }
  notice("warning: the digest of " + whole +
             " is not known: " + std::get<RegistryUnknown>(answer).why +
             "; nodes run the image that they hold under this name, else they pull it",
         common);
}

std::string login_for_nodes(const EnvironmentSpec& environment, const CommonOptions& common) {
  const std::string name = environment.image.empty() ? "" : pulled_image(environment);
  if (name.empty() || is_of_no_registry(name)) return {};
  const auto login = login_for(name, helper_limit);
  if (login) return *login;
  notice("warning: no login at " + registry_of(name) + ": " + login.error().message, common);
  return {};
}

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
  build.bases = base_images(written);
  const auto bases = pin_bases(build, images, common);
  build.dockerfile = with_base_images(written, bases);
  const auto hash =
      is_conda ? Result<std::string>(content_hash_of(build.dockerfile + '\0' + build.conda))
               : build_hash(build.context, build.dockerfile);
  build.name = "localhost/muster/build:" + or_end(hash, invalid_file);
  build.is_built = run_here({"podman", "image", "exists", build.name}).is_ok;
  return build;
}

void build_image(const ImageBuild& build, EnvironmentSpec& environment, const Home& home,
                 const CommonOptions& common) {
  environment.image = environment.pull_name = build.name;
  if (!build.is_built) podman_build(build, home, common);
  const ProgramEnd told =
      run_here({"podman", "image", "inspect", "--format", "{{.Digest}}", build.name});
  environment.digest = trimmed(told.output);
  const bool is_named =
      is_image_digest(environment.digest) &&
      run_here({"podman", "tag", build.name, name_on_node(build.name, environment.digest)}).is_ok;
  if (!is_named) throw VerbEnd(internal_error, "the image that was built is not there");
}

void check_copies(std::int64_t bytes, int nodes, const ImageSettings& images,
                  const CommonOptions& common) {
  constexpr int few_nodes = 8;
  constexpr std::int64_t most_bytes = 1'000'000'000'000;
  const std::int64_t all = bytes * nodes;
  std::string what = "the image is copied from here to each of " + std::to_string(nodes) + " nodes";
  if (all > 0) what += ", " + bytes_text(static_cast<std::uint64_t>(all)) + " in all";
  const bool is_refused = all > most_bytes && images.pull != ImageBringer::controller;
  what += "; let 'mirrors' in the cluster file name a registry that they reach";
  if (is_refused) throw VerbEnd(invalid_file, what + ", or write 'containers: {pull: controller}'");
  if (nodes > few_nodes) notice("warning: " + what, common);
}

// Kept by its digest: the same image is copied once.
std::optional<Tree> image_tree(EnvironmentSpec& environment, bool is_built, const Home& home,
                               const ComputeTarget& target, const ImageSettings& images, int nodes,
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
  check_copies(bytes, nodes, images, common);
  return known->front();
}

Result<std::string> fetch_for_nodes(const std::vector<std::string>& words) {
  const Home home{words[1]};
  const JobId job{words[2]};
  EnvironmentSpec environment;
  environment.pull_name = words[3];
  environment.digest = words[4];
  ImageSettings images;
  CommonOptions quiet;
  quiet.only_show_errors = true;
  const std::string login = home.registry_login(job).string();
  if (fs::exists(login)) ::setenv("REGISTRY_AUTH_FILE", login.c_str(), 1);
  try {
    const auto nodes = static_cast<int>(read_integer(words[6]).value_or(1));
    check_copies(read_integer(words[5]).value_or(0), nodes, images, quiet);
    auto trees = or_end(load_trees(home.trees(job)));
    std::erase_if(trees, [](const Tree& each) { return each.place == ImagePull::place; });
    images.pull = ImageBringer::controller;
    trees.push_back(*image_tree(environment, false, home, {}, images, nodes, quiet));
    or_end(save_trees(home.trees(job), trees));
    return std::string();
  } catch (const VerbEnd& end) {
    return Error{end.what()};
  }
}

}  // namespace muster
