// An image brought to a node, by programs that do as podman and docker do and write down what they
// were told. What real ones do is in tests/e2e/image.sh.
#include "launcher/agent/image/pull.h"

#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "launcher/image/name.h"
#include "launcher/os/read_file.h"
#include "scheduler/text/text.h"
#include "tests/catch.h"

using namespace muster;

namespace {

namespace fs = std::filesystem;

constexpr const char* podman_double = R"sh(#!/bin/sh
here=$(dirname "$0"); echo "$*" >>"$here/calls"
name_of() { echo "$1" | tr '/:@' '___'; }
case "$1" in
  image) [ -e "$here/have-$(name_of "$3")" ] ;;
  tag) : >"$here/have-$(name_of "$3")" ;;
  pull)
    env >"$here/environ"; cat /dev/stdin >"$here/stdin"; echo pulled >>"$here/pulls"
    [ ! -e "$here/config" ] || cat "$TMPDIR/config.json" >"$here/config"
    head -c 1000000 /dev/zero >"$TMPDIR/blob"
    echo $$ >"$here/pid"
    [ ! -e "$here/fails" ] || { cat "$here/fails" >&2; exit 125; }
    [ ! -e "$here/slow" ] || sleep "$(cat "$here/slow")"
    echo b785eb22c0c4 ;;
esac
)sh";

class ImageNode {
 public:
  ImageNode() {
    std::string name = (fs::temp_directory_path() / "muster-pull-XXXXXX").string();
    REQUIRE(::mkdtemp(name.data()) != nullptr);
    root_ = name;
    put("podman", podman_double);
    ::chmod((root_ / "podman").c_str(), 0755);
    // Nothing else is in its PATH: this machine may have a podman, too.
    for (const char* tool : {"dirname", "tr", "cat", "head", "env", "sleep"}) {
      fs::create_symlink(std::string("/usr/bin/") + tool, root_ / tool);
    }
    wanted.name = "lab:5000/tiny:1";
    wanted.digest = "sha256:" + std::string(64, 'a');
    wanted.bytes = 1'000'000;
    wanted.login = R"({"auths":{"lab:5000":{"auth":"c2VjcmV0"}}})";
  }
  ImageNode(const ImageNode&) = delete;
  ~ImageNode() { fs::remove_all(root_); }

  void put(const std::string& name, const std::string& text) const {
    std::ofstream(root_ / name) << text;
  }
  std::string text(const std::string& name) const { return text_of_file(root_ / name); }
  std::string home() const { return (root_ / "home").string(); }
  ImageFetch fetch() const {
    return {wanted, home(), {{"PATH", root_.string()}}, [](std::string_view) {}};
  }
  std::optional<ImageFetch::Failure> bring() const {
    ImageFetch one = fetch();
    const auto here = one.is_here();
    REQUIRE(here);
    return *here ? std::nullopt : one.bring("");
  }
  std::size_t parts() const {
    std::size_t count = 0;
    for (const auto& each : fs::directory_iterator(home() + "/images")) {
      count += each.path().extension() == ".part";
    }
    return count;
  }

  ImagePull wanted;

 private:
  fs::path root_;
};

pid_t in_child(const ImageNode& node) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(node.bring() ? 1 : 0);
  return child;
}

template <class Condition>
bool becomes(Condition condition) {
  for (int i = 0; i < 500; ++i) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds{20});
  }
  return false;
}

}  // namespace

TEST_CASE("a node pulls an image by its digest, with a login that nothing but the pull reads") {
  const ImageNode node;
  fs::create_directory(node.home());
  CHECK_FALSE(node.bring());
  const std::string calls = node.text("calls");
  CHECK(mentions(calls, "pull --quiet --authfile /dev/stdin lab:5000/tiny@" + node.wanted.digest));
  CHECK(mentions(calls, "tag b785eb22c0c4 " + name_on_node("", node.wanted.digest)));
  CHECK(node.text("stdin") == node.wanted.login);
  CHECK_FALSE(mentions(calls + node.text("environ"), "c2VjcmV0"));
  CHECK(mentions(node.text("environ"), "TMPDIR=" + node.home() + "/images/"));
  CHECK(node.parts() == 0);
  CHECK_FALSE(node.bring());
  CHECK(node.text("pulls") == "pulled\n");  // it is there
}

TEST_CASE("an image that no registry gives fails the job, a registry that is down the attempt") {
  const ImageNode node;
  fs::create_directory(node.home());
  node.put("fails", "Error: reading manifest 1 in lab:5000/tiny: manifest unknown\n");
  auto failed = node.bring();
  REQUIRE(failed);
  CHECK(failed->is_lasting);
  CHECK(failed->why ==
        "could not bring the image lab:5000/tiny:1 from the registry lab:5000: "
        "Error: reading manifest 1 in lab:5000/tiny: manifest unknown");
  node.put("fails", "dial tcp 10.0.0.1:5000: connect: connection refused\n");
  failed = node.bring();
  REQUIRE(failed);
  CHECK_FALSE(failed->is_lasting);
  CHECK(node.parts() == 0);
}

TEST_CASE("an image that no registry has is not looked for in one") {
  ImageNode node;
  fs::create_directory(node.home());
  node.wanted.name = "localhost/muster/build:1";
  const auto failed = node.bring();
  REQUIRE(failed);
  CHECK(failed->is_lasting);
  CHECK(node.text("pulls").empty());
}

TEST_CASE("two attempts at once pull an image once") {
  const ImageNode node;
  fs::create_directory(node.home());
  node.put("slow", "0.5");
  const pid_t first = in_child(node);
  const pid_t second = in_child(node);
  int status = -1;
  ::waitpid(first, &status, 0);
  CHECK(status == 0);
  ::waitpid(second, &status, 0);
  CHECK(status == 0);
  CHECK(node.text("pulls") == "pulled\n");
}

TEST_CASE("a pull dies with the task that began it, and what had come is removed") {
  const ImageNode node;
  fs::create_directory(node.home());
  node.put("slow", "1000");
  const pid_t task = in_child(node);
  REQUIRE(becomes([&] { return !node.text("pid").empty(); }));
  REQUIRE(node.parts() == 1);
  remove_left_image_parts(node.home());
  CHECK(node.parts() == 1);  // it is being pulled
  ::kill(task, SIGKILL);
  ::waitpid(task, nullptr, 0);
  const std::string program = "/proc/" + std::string(trimmed(node.text("pid"))) + "/stat";
  CHECK(becomes([&] {
    const std::string state = text_of_file(program);
    return state.empty() || mentions(state, ") Z ");
  }));
  remove_left_image_parts(node.home());
  CHECK(node.parts() == 0);
}

TEST_CASE("docker finds the login in a file that is none") {
  const ImageNode node;
  fs::create_directory(node.home());
  const fs::path program = fs::path(node.home()).parent_path() / "podman";
  fs::rename(program, program.parent_path() / "docker");
  std::string text = node.text("docker");
  text = replaced(text, "pull)", "--config) pull=$2; shift 2; TMPDIR=$pull; : >\"$here/config\"");
  node.put("docker", text);
  const auto failed = node.bring();
  CHECK(mentions(node.text("calls"), "pull --quiet lab:5000/tiny@" + node.wanted.digest));
  CHECK_FALSE(mentions(node.text("calls") + node.text("environ"), "c2VjcmV0"));
  CHECK(node.text("config") == node.wanted.login);
  CHECK_FALSE(failed);
}

TEST_CASE("what a person reads of a pull") {
  CHECK(image_progress(1'200'000'000, 7'900'000'000) == "image 1.2 of 7.9 GB");
  CHECK(image_progress(3'000'000, 25'000'000) == "image 3.0 of 25.0 MB");
  CHECK(image_progress(5'000'000, 0) == "image, 5.0 MB of it");
  CHECK(image_progress(9, 9) == "image of 0.0 MB, which is unpacked");
}
