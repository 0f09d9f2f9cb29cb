// What container runtimes are told, and unpacked images.
#include "launcher/agent/container/runtime.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "launcher/agent/image/pull.h"
#include "launcher/os/read_file.h"
#include "tests/catch.h"
#include "tests/runtime/folder.h"

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
  CHECK(has(words, "--user", "0:0"));  // whatever the image says
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
        std::vector<std::string>{"podman", "rm", "--force", "--volumes", "--ignore", "--time", "0",
                                 "muster-a"});
  CHECK(remove_words(ContainerRuntime::docker, "muster-a") ==
        std::vector<std::string>{"docker", "rm", "--force", "--volumes", "muster-a"});
}

TEST_CASE("runtimes that keep no images are given a directory, a namespace and the mounts") {
  ContainerPlace place = a_place();
  place.root = "/home/.muster/images/ab/rootfs";
  place.files = {{"/lib/libc.so.6", "/muster-lib/libc.so.6"}};
  const auto bubblewrap = run_words(ContainerRuntime::bubblewrap, place);
  CHECK(has(bubblewrap, "--ro-bind", place.root));
  CHECK(std::ranges::count(bubblewrap, "--unshare-pid") == 1);
  CHECK(std::ranges::count(bubblewrap, "--clearenv") == 1);  // the image's own are told by muster
  CHECK(std::ranges::count(bubblewrap, "--die-with-parent") == 0);  // a killed client ends nothing
  CHECK(has(bubblewrap, "--bind", "/home/ml/job"));
  const auto charliecloud = run_words(ContainerRuntime::charliecloud, place);
  CHECK(has(charliecloud, "unshare", "-Urpf"));
  CHECK(has(charliecloud, "--bind", "/data/a,b:/data/a,b"));
  CHECK(has(charliecloud, place.root, "--"));
  place.has_gpus = true;
  const auto apptainer = run_words(ContainerRuntime::apptainer, place);
  CHECK(has(apptainer, "--cleanenv", "--pid"));
  CHECK(std::ranges::count(apptainer, "--nv") == 1);
  CHECK(has(apptainer, "--bind", "/lib/libc.so.6:/muster-lib/libc.so.6:ro"));
  const auto enroot = run_words(ContainerRuntime::enroot, place);
  CHECK(has(enroot, "env", "ENROOT_DATA_PATH=/home/.muster/images/ab"));
  CHECK(has(enroot, "rootfs", "/muster/hold"));
  for (const auto& words : {bubblewrap, charliecloud, apptainer, enroot}) {
    CHECK(words.back() == "/muster/sock");
  }
  CHECK(remove_words(ContainerRuntime::bubblewrap, "muster-a").empty());
}

TEST_CASE("a runtime is the wanted one, or the first that is whole") {
  const test::Folder node;
  const auto add = [&](const char* program) {
    REQUIRE(replace_file(node / program, "#!/bin/sh\n", 0755, Durable::in_cache));
  };
  add("bwrap");
  CHECK_THAT(runtime_in(node.path(), "").error().message, ContainsSubstring("install podman"));
  CHECK_THAT(runtime_in(node.path(), "bubblewrap").error().message,
             ContainsSubstring("install skopeo, umoci"));
  add("skopeo");
  add("umoci");
  CHECK(*runtime_in(node.path(), "") == ContainerRuntime::bubblewrap);
  add("ch-run");
  CHECK(*runtime_in(node.path(), "auto") == ContainerRuntime::charliecloud);
  add("podman");
  CHECK(*runtime_in(node.path(), "") == ContainerRuntime::podman);
  CHECK(*runtime_in(node.path(), "charliecloud") == ContainerRuntime::charliecloud);
  CHECK_FALSE(runtime_in(node.path(), "docker"));
}

TEST_CASE("mount points in an unpacked image follow none of its links out of it") {
  const test::Folder image;
  const test::Folder outside;
  REQUIRE(::symlink(outside.path().c_str(), (image / "data").c_str()) == 0);
  CHECK_FALSE(make_mount_points(image.path(), {{"/data/job", false}}));
  CHECK(std::filesystem::is_empty(outside.path()));
  REQUIRE(make_mount_points(image.path(), {{"/muster", false}, {"/etc/hosts", true}}));
  REQUIRE(make_mount_points(image.path(), {{"/muster", false}, {"/etc/hosts", true}}));
  CHECK(std::filesystem::is_directory(image / "muster"));
  CHECK(std::filesystem::is_regular_file(image / "etc/hosts"));
}

TEST_CASE("the variables of an unpacked image are those that its maker gave it") {
  const test::Folder image;
  CHECK(variables_of_image(image.path())->empty());
  const auto read = [&](const std::string& text) {
    REQUIRE(replace_file(image / "config.json", text, 0600, Durable::in_cache));
    return variables_of_image(image.path());
  };
  CHECK(*read(R"({"process": {"env": ["A=b=c", "EMPTY=", "none"]}})") ==
        std::map<std::string, std::string>{{"A", "b=c"}, {"EMPTY", ""}});
  CHECK_FALSE(read("{"));
  CHECK_FALSE(read(R"({"process": {"env": [1]}})"));
}
