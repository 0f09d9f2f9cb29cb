#include "launcher/agent/container/runtime.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "launcher/agent/node/spawn.h"
#include "scheduler/text/text.h"

namespace muster {

namespace {

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

// Of the host, for names and users.
constexpr const char* shared_files[] = {"/etc/passwd", "/etc/group", "/etc/hosts",
                                        "/etc/resolv.conf"};

bool is_file(const std::string& path) {
  std::error_code ignored;
  return !std::filesystem::is_directory(path, ignored);
}

struct Bind {
  std::string source;
  std::string target;
  bool is_read_only = true;
};

std::vector<Bind> binds_of(const ContainerPlace& place) {
  std::vector<Bind> binds = {{place.holder, "/muster"}};
  for (const auto& [source, target] : place.files) binds.push_back({source, target});
  for (const std::string& path : place.mounts) binds.push_back({path, path, false});
  return binds;
}

// docker's daemon is root's: files would be, too, and a program of the image must not become it.
// In podman's, root is who started it, whoever the image would have.
template <bool is_podman>
Words daemon_words(const ContainerPlace& place) {
  Words words = {is_podman ? "podman" : "docker", "run", "--rm", "--log-driver", "none"};
  add(words, {"--name", place.name, "--network", "host", "--shm-size", place.shm_size});
  add(words, {"--ulimit", limit_word("nofile", RLIMIT_NOFILE, 1 << 20)});
  add(words, {"--ulimit", limit_word("nproc", RLIMIT_NPROC, 32768)});
  add(words, {"--ulimit", limit_word("memlock", RLIMIT_MEMLOCK, RLIM_INFINITY)});
  for (const Bind& bind : binds_of(place)) {
    const std::string fields = field("source", bind.source) + "," + field("target", bind.target);
    add(words, {"--mount", "type=bind," + fields + (bind.is_read_only ? ",readonly" : "")});
  }
  if (place.has_infiniband) add(words, {"--device", "/dev/infiniband"});
  if (place.has_gpus && is_podman) add(words, {"--device", "nvidia.com/gpu=all"});
  if (place.has_gpus && !is_podman) add(words, {"--gpus", "all"});
  const std::string user = std::to_string(::getuid()) + ":" + std::to_string(::getgid());
  add(words, {"--user", is_podman ? "0:0" : user});
  if (!is_podman) add(words, {"--security-opt", "no-new-privileges"});
  add(words, {"--workdir", "/", "--entrypoint", "/muster/hold", "--pull", "never"});
  add(words, {"--", place.image});
  return words;
}

// The image's root is read-only, so that jobs share it; what programs expect to write is of this
// container alone.
Words bubblewrap_words(const ContainerPlace& place) {
  Words words = {"bwrap", "--clearenv", "--ro-bind", place.root, "/"};
  add(words, {"--unshare-pid", "--as-pid-1", "--proc", "/proc", "--dev-bind", "/dev", "/dev"});
  add(words, {"--tmpfs", "/dev/shm", "--ro-bind", "/sys", "/sys", "--tmpfs", "/tmp"});
  add(words, {"--tmpfs", "/run"});
  for (const char* file : shared_files) add(words, {"--ro-bind-try", file, file});
  for (const Bind& bind : binds_of(place)) {
    add(words, {bind.is_read_only ? "--ro-bind" : "--bind", bind.source, bind.target});
  }
  add(words, {"--", "/muster/hold"});
  return words;
}

// It leaves the host's process namespace alone: where a holder were killed, others would live on.
Words charliecloud_words(const ContainerPlace& place) {
  Words words = {"unshare", "-Urpf", "--kill-child", "ch-run", "--unset-env=*"};
  for (const Bind& bind : binds_of(place)) add(words, {"--bind", bind.source + ":" + bind.target});
  add(words, {place.root, "--", "/muster/hold"});
  return words;
}

Words apptainer_words(const ContainerPlace& place) {
  Words words = {"apptainer", "--silent", "exec", "--cleanenv", "--pid", "--no-init", "--no-home"};
  if (place.has_gpus) words.emplace_back("--nv");
  for (const Bind& bind : binds_of(place)) {
    add(words, {"--bind", bind.source + ":" + bind.target + (bind.is_read_only ? ":ro" : "")});
  }
  add(words, {place.root, "/muster/hold"});
  return words;
}

// It looks for a root by name in ENROOT_DATA_PATH.
Words enroot_words(const ContainerPlace& place) {
  const std::size_t slash = place.root.rfind('/');
  Words words = {"env", "ENROOT_DATA_PATH=" + place.root.substr(0, slash)};
  add(words, {"unshare", "-Urpf", "--kill-child", "enroot", "start"});
  for (const auto& [source, target, is_read_only] : binds_of(place)) {
    const std::string made = is_file(source) ? "file" : "dir";
    const char* const more = target == "/muster" ? ",bind,ro" : ",bind";
    add(words, {"--mount", source + ":" + target + ":none:x-create=" + made + more});
  }
  add(words, {place.root.substr(slash + 1), "/muster/hold"});
  return words;
}

struct RuntimeRow {
  ContainerRuntime runtime;
  const char* name;  // as a cluster file has it
  Words programs;    // those that unpack images for it among them
  Words (*words)(const ContainerPlace& place);
};

// In order of preference, which is that of the enumeration.
const std::vector<RuntimeRow>& rows() {
  using enum ContainerRuntime;
  static const std::vector<RuntimeRow> all = {
      {podman, "podman", {"podman"}, daemon_words<true>},
      {docker, "docker", {"docker"}, daemon_words<false>},
      {apptainer, "apptainer", {"apptainer"}, apptainer_words},
      {enroot, "enroot", {"enroot", "skopeo", "umoci"}, enroot_words},
      {charliecloud, "charliecloud", {"ch-run", "skopeo", "umoci"}, charliecloud_words},
      {bubblewrap, "bubblewrap", {"bwrap", "skopeo", "umoci"}, bubblewrap_words}};
  return all;
}

}  // namespace

Result<ContainerRuntime> runtime_in(const std::string& path_list, const std::string& wanted) {
  const bool is_any = wanted.empty() || wanted == "auto";
  for (const RuntimeRow& row : rows()) {
    if (!is_any && wanted != row.name) continue;
    Words missing = row.programs;
    std::erase_if(missing, [&](const auto& each) { return !!find_program(each, path_list); });
    if (missing.empty()) return row.runtime;
    if (!is_any) return Error{wanted + " needs what this node has not: install " + joined(missing)};
  }
  return Error{"no container runtime was found on this node: install podman"};
}

bool keeps_images(ContainerRuntime runtime) {
  return runtime == ContainerRuntime::podman || runtime == ContainerRuntime::docker;
}

std::vector<std::string> run_words(ContainerRuntime runtime, const ContainerPlace& place) {
  Words words = rows().at(static_cast<std::size_t>(runtime)).words(place);
  words.emplace_back("/muster/sock");
  return words;
}

std::vector<std::pair<std::string, bool>> mount_points(const ContainerPlace& place) {
  std::vector<std::pair<std::string, bool>> points;
  for (const char* directory : {"/proc", "/dev", "/sys", "/tmp", "/run"}) {
    points.emplace_back(directory, false);
  }
  for (const char* file : shared_files) points.emplace_back(file, true);
  for (const Bind& bind : binds_of(place)) points.emplace_back(bind.target, is_file(bind.source));
  return points;
}

std::vector<std::string> remove_words(ContainerRuntime runtime, const std::string& name) {
  if (!keeps_images(runtime)) return {};
  if (runtime == ContainerRuntime::docker) return {"docker", "rm", "--force", "--volumes", name};
  return {"podman", "rm", "--force", "--volumes", "--ignore", "--time", "0", name};
}

}  // namespace muster
