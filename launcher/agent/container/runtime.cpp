#include "launcher/agent/container/runtime.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "launcher/agent/node/spawn.h"
#include "scheduler/text/text.h"

namespace muster {

namespace {

struct RuntimeRow {
  ContainerRuntime runtime;
  const char* name;  // as a cluster file has it
  const char* program;
  std::vector<std::string> needs;  // to unpack images
};

// In order of preference.
const std::vector<RuntimeRow>& rows() {
  using enum ContainerRuntime;
  static const std::vector<std::string> unpackers = {"skopeo", "umoci"};
  static const std::vector<RuntimeRow> all = {{podman, "podman", "podman", {}},
                                              {docker, "docker", "docker", {}},
                                              {apptainer, "apptainer", "apptainer", {}},
                                              {enroot, "enroot", "enroot", unpackers},
                                              {charliecloud, "charliecloud", "ch-run", unpackers},
                                              {bubblewrap, "bubblewrap", "bwrap", unpackers}};
  return all;
}

// Its programs that are missing.
std::string missing_in(const RuntimeRow& row, const std::string& path_list) {
  std::vector<std::string> missing;
  if (!find_program(row.program, path_list)) missing.emplace_back(row.program);
  for (const std::string& program : row.needs) {
    if (!find_program(program, path_list)) missing.push_back(program);
  }
  return joined(missing);
}

using Words = std::vector<std::string>;

void add(Words& words, std::initializer_list<std::string> more) {
  words.insert(words.end(), more);
}

// Our own: podman's own defaults are refused without CAP_SYS_RESOURCE, and it lowers the number of
// processes to 32768 itself.
std::string limit_word(const char* name, int resource, rlim_t most) {
  rlimit limit{};
  ::getrlimit(static_cast<__rlimit_resource_t>(resource), &limit);
  const rlim_t highest = std::min(limit.rlim_max, most);
  const std::string value = highest == RLIM_INFINITY ? "-1" : std::to_string(highest);
  return std::string(name) + "=" + value + ":" + value;
}

// Fields with a comma are quoted, as in a CSV file.
std::string field(const std::string& name, const std::string& value) {
  const std::string text = name + "=" + value;
  if (value.find_first_of(",\"") == value.npos) return text;
  return "\"" + replaced(text, "\"", "\"\"") + "\"";
}

std::string bound(const std::string& source, const std::string& target) {
  return "type=bind," + field("source", source) + "," + field("target", target);
}

// Of the host, for names and users.
constexpr const char* shared_files[] = {"/etc/passwd", "/etc/group", "/etc/hosts",
                                        "/etc/resolv.conf"};

bool is_file(const std::string& path) {
  std::error_code ignored;
  return !std::filesystem::is_directory(path, ignored);
}

Words daemon_words(ContainerRuntime runtime, const ContainerPlace& place) {
  std::vector<std::string> words = {runtime == ContainerRuntime::podman ? "podman" : "docker",
                                    "run",
                                    "--rm",
                                    "--log-driver",
                                    "none",
                                    "--name",
                                    place.name,
                                    "--network",
                                    "host",
                                    "--shm-size",
                                    place.shm_size,
                                    "--ulimit",
                                    limit_word("nofile", RLIMIT_NOFILE, 1 << 20),
                                    "--ulimit",
                                    limit_word("nproc", RLIMIT_NPROC, 32768),
                                    "--ulimit",
                                    limit_word("memlock", RLIMIT_MEMLOCK, RLIM_INFINITY),
                                    "--mount",
                                    bound(place.holder, "/muster") + ",readonly",
                                    "--entrypoint",
                                    "/muster/hold"};
  for (const std::string& path : place.mounts) add(words, {"--mount", bound(path, path)});
  for (const auto& [source, target] : place.files) {
    add(words, {"--mount", bound(source, target) + ",readonly"});
  }
  if (place.has_infiniband) add(words, {"--device", "/dev/infiniband"});
  const bool is_podman = runtime == ContainerRuntime::podman;
  if (place.has_gpus && is_podman) add(words, {"--device", "nvidia.com/gpu=all"});
  if (place.has_gpus && !is_podman) add(words, {"--gpus", "all"});
  // docker's daemon is root's: files would be, too, and a program of the image must not become it.
  // In podman's, root is who started it, whoever the image would have.
  const std::string user = std::to_string(::getuid()) + ":" + std::to_string(::getgid());
  add(words, {"--user", is_podman ? "0:0" : user});
  if (!is_podman) add(words, {"--security-opt", "no-new-privileges"});
  add(words, {"--pull", "never", "--", place.image, "/muster/sock"});
  return words;
}

// The image's root is read-only, so that jobs share it; what programs expect to write is of this
// container alone.
Words bubblewrap_words(const ContainerPlace& place) {
  Words words = {"bwrap", "--clearenv", "--ro-bind", place.root, "/"};
  add(words, {"--unshare-pid", "--as-pid-1", "--proc", "/proc", "--dev-bind", "/dev", "/dev"});
  add(words, {"--tmpfs", "/dev/shm", "--ro-bind", "/sys", "/sys", "--tmpfs", "/tmp"});
  add(words, {"--tmpfs", "/run", "--ro-bind", place.holder, "/muster"});
  for (const char* file : shared_files) add(words, {"--ro-bind-try", file, file});
  for (const auto& [source, target] : place.files) add(words, {"--ro-bind", source, target});
  for (const std::string& path : place.mounts) add(words, {"--bind", path, path});
  add(words, {"--", "/muster/hold", "/muster/sock"});
  return words;
}

// It leaves the host's process namespace alone: where a holder were killed, others would live on.
Words charliecloud_words(const ContainerPlace& place) {
  Words words = {"unshare", "-Urpf", "--kill-child", "ch-run", "--unset-env=*"};
  add(words, {"--bind", place.holder + ":/muster"});
  for (const auto& [source, target] : place.files) add(words, {"--bind", source + ":" + target});
  for (const std::string& path : place.mounts) add(words, {"--bind", path + ":" + path});
  add(words, {place.root, "--", "/muster/hold", "/muster/sock"});
  return words;
}

Words apptainer_words(const ContainerPlace& place) {
  Words words = {"apptainer", "--silent", "exec", "--cleanenv", "--pid", "--no-init", "--no-home"};
  if (place.has_gpus) words.emplace_back("--nv");
  add(words, {"--bind", place.holder + ":/muster:ro"});
  for (const auto& [source, target] : place.files) {
    add(words, {"--bind", source + ":" + target + ":ro"});
  }
  for (const std::string& path : place.mounts) add(words, {"--bind", path + ":" + path});
  add(words, {place.root, "/muster/hold", "/muster/sock"});
  return words;
}

// It looks for a root by name in ENROOT_DATA_PATH.
Words enroot_words(const ContainerPlace& place) {
  const std::size_t slash = place.root.rfind('/');
  Words words = {"env", "ENROOT_DATA_PATH=" + place.root.substr(0, slash),
                 "unshare", "-Urpf", "--kill-child", "enroot", "start",
                 "--mount", place.holder + ":/muster:none:x-create=dir,bind,ro"};
  const auto mount = [&](const std::string& source, const std::string& target) {
    const char* const kind = is_file(source) ? "file" : "dir";
    add(words, {"--mount", source + ":" + target + ":none:x-create=" + kind + ",bind"});
  };
  for (const auto& [source, target] : place.files) mount(source, target);
  for (const std::string& path : place.mounts) mount(path, path);
  add(words, {place.root.substr(slash + 1), "/muster/hold", "/muster/sock"});
  return words;
}

}  // namespace

Result<ContainerRuntime> runtime_in(const std::string& path_list, const std::string& wanted) {
  const bool is_any = wanted.empty() || wanted == "auto";
  for (const RuntimeRow& row : rows()) {
    if (!is_any && wanted != row.name) continue;
    const std::string missing = missing_in(row, path_list);
    if (missing.empty()) return row.runtime;
    if (!is_any) return Error{wanted + " needs what this node has not: install " + missing};
  }
  return Error{"no container runtime was found on this node: install podman"};
}

bool keeps_images(ContainerRuntime runtime) {
  return runtime == ContainerRuntime::podman || runtime == ContainerRuntime::docker;
}

std::vector<std::string> run_words(ContainerRuntime runtime, const ContainerPlace& place) {
  switch (runtime) {
    case ContainerRuntime::apptainer: return apptainer_words(place);
    case ContainerRuntime::enroot: return enroot_words(place);
    case ContainerRuntime::charliecloud: return charliecloud_words(place);
    case ContainerRuntime::bubblewrap: return bubblewrap_words(place);
    default: return daemon_words(runtime, place);
  }
}

std::vector<std::pair<std::string, bool>> mount_points(const ContainerPlace& place) {
  std::vector<std::pair<std::string, bool>> points;
  for (const char* directory : {"/muster", "/proc", "/dev", "/sys", "/tmp", "/run"}) {
    points.emplace_back(directory, false);
  }
  for (const char* file : shared_files) points.emplace_back(file, true);
  for (const auto& [source, target] : place.files) points.emplace_back(target, is_file(source));
  for (const std::string& path : place.mounts) points.emplace_back(path, is_file(path));
  return points;
}

std::vector<std::string> remove_words(ContainerRuntime runtime, const std::string& name) {
  if (!keeps_images(runtime)) return {};
  if (runtime == ContainerRuntime::docker) return {"docker", "rm", "--force", "--volumes", name};
  return {"podman", "rm", "--force", "--volumes", "--ignore", "--time", "0", name};
}

}  // namespace muster
