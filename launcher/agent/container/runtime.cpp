#include "launcher/agent/container/runtime.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>

#include "launcher/agent/node/spawn.h"
#include "scheduler/text/text.h"

namespace muster {

namespace {

const char* program_of(ContainerRuntime runtime) {
  return runtime == ContainerRuntime::podman ? "podman" : "docker";
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

}  // namespace

Result<ContainerRuntime> runtime_in(const std::string& path_list) {
  for (const auto runtime : {ContainerRuntime::podman, ContainerRuntime::docker}) {
    if (find_program(program_of(runtime), path_list)) return runtime;
  }
  return Error{"neither podman nor docker was found on this node: install podman"};
}

std::vector<std::string> run_words(ContainerRuntime runtime, const ContainerPlace& place) {
  std::vector<std::string> words = {program_of(runtime),
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
  const auto add = [&words](std::initializer_list<std::string> more) {
    words.insert(words.end(), more);
  };
  for (const std::string& path : place.mounts) add({"--mount", bound(path, path)});
  for (const auto& [source, target] : place.files) {
    add({"--mount", bound(source, target) + ",readonly"});
  }
  if (place.has_infiniband) add({"--device", "/dev/infiniband"});
  const bool is_podman = runtime == ContainerRuntime::podman;
  if (place.has_gpus && is_podman) add({"--device", "nvidia.com/gpu=all"});
  if (place.has_gpus && !is_podman) add({"--gpus", "all"});
  // Its daemon is root's: files would be, too. In podman's, root is who started it.
  if (!is_podman) {
    add({"--user", std::to_string(::getuid()) + ":" + std::to_string(::getgid())});
  }
  add({"--", whole_image_name(place.image), "/muster/sock"});
  return words;
}

std::vector<std::string> remove_words(ContainerRuntime runtime, const std::string& name) {
  if (runtime == ContainerRuntime::docker) return {"docker", "rm", "--force", name};
  return {"podman", "rm", "--force", "--ignore", "--time", "0", name};
}

bool is_about_image(std::string_view said) {
  constexpr std::string_view signs[] = {"manifest unknown",
                                        "name unknown",
                                        "denied",
                                        "unauthorized",
                                        "image not known",
                                        "invalid reference format",
                                        "no image with name",
                                        "repository does not exist"};
  return std::ranges::any_of(signs, [&](std::string_view sign) { return mentions(said, sign); });
}

std::string whole_image_name(const std::string& image) {
  const std::size_t slash = image.find('/');
  const std::string first = image.substr(0, slash);
  const bool has_registry =
      slash != image.npos && (first.find_first_of(".:") != first.npos || first == "localhost");
  std::string whole = has_registry ? image : "docker.io/" + image;
  if (!has_registry && slash == image.npos) whole = "docker.io/library/" + image;
  const std::string last = whole.substr(whole.rfind('/'));
  return last.find_first_of(":@") == last.npos ? whole + ":latest" : whole;
}

}  // namespace muster
