// What podman and docker are told.
#include "launcher/agent/container/runtime.h"

#include <algorithm>

#include "tests/catch.h"

using namespace muster;

namespace {

ContainerPlace a_place() {
  ContainerPlace place{"docker.io/library/python:3.12", "muster-a", "8g", "/run/hold"};
  place.mounts = {"/home/ml/job", "/data/a,b"};
  return place;
}

bool has(const std::vector<std::string>& words, const std::string& first,
         const std::string& second) {
  const auto at = std::ranges::adjacent_find(
      words, [&](const auto& a, const auto& b) { return a == first && b == second; });
  return at != words.end();
}

}  // namespace

TEST_CASE(
    "a container has the image's whole name, the directories at their paths, and muster-hold") {
  const auto words = run_words(ContainerRuntime::podman, a_place());
  CHECK(words.front() == "podman");
  CHECK(has(words, "--name", "muster-a"));
  CHECK(has(words, "--shm-size", "8g"));
  CHECK(has(words, "--network", "host"));
  CHECK(has(words, "--entrypoint", "/muster/hold"));
  CHECK(has(words, "--mount", "type=bind,source=/run/hold,target=/muster,readonly"));
  CHECK(has(words, "--mount", "type=bind,source=/home/ml/job,target=/home/ml/job"));
  CHECK(has(words, "--mount", R"(type=bind,"source=/data/a,b","target=/data/a,b")"));
  const std::vector<std::string> end(words.end() - 3, words.end());
  CHECK(end == std::vector<std::string>{"--", "docker.io/library/python:3.12", "/muster/sock"});
  CHECK(has(words, "--pull", "never"));
  CHECK_FALSE(std::ranges::count(words, "--device"));
  CHECK_FALSE(std::ranges::count(words, "--user"));
  CHECK_FALSE(std::ranges::count(words, "--privileged"));
}

TEST_CASE("devices are given where the node has them, in each runtime's own words") {
  ContainerPlace place = a_place();
  place.has_gpus = place.has_infiniband = true;
  const auto podman = run_words(ContainerRuntime::podman, place);
  CHECK(has(podman, "--device", "nvidia.com/gpu=all"));
  CHECK(has(podman, "--device", "/dev/infiniband"));
  const auto docker = run_words(ContainerRuntime::docker, place);
  CHECK(docker.front() == "docker");
  CHECK(has(docker, "--gpus", "all"));
  CHECK(std::ranges::count(docker, "--user") == 1);  // its daemon's files would be root's
}

TEST_CASE("a container is removed whatever is left of it, at once") {
  CHECK(remove_words(ContainerRuntime::podman, "muster-a") ==
        std::vector<std::string>{"podman", "rm", "--force", "--ignore", "--time", "0", "muster-a"});
  CHECK(remove_words(ContainerRuntime::docker, "muster-a") ==
        std::vector<std::string>{"docker", "rm", "--force", "muster-a"});
}
