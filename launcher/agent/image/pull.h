// An image brought to this node, by the runtime that will run it: from its registry, or from files
// that came with the job's. Blocks; runs in a child task of the agent's, and may be killed at any
// moment: what it began dies with it, and a login was nowhere but in its memory.
//
//   <home>/images/<hex>.lock   who pulls this image; the others wait, then find it
//   <home>/images/<hex>.part/  what has come of it; removed with the pull, or by the next look
//   <home>/images/<hex>/       unpacked, where the runtime keeps no images
//
// Unpacked are rootfs/, and config.json as umoci leaves it. Jobs share them. What is in them is the
// image's maker's: no link in it is followed.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "launcher/agent/container/runtime.h"
#include "launcher/agent/node/spawn.h"
#include "launcher/wire/agent_request.h"
#include "scheduler/model/result.h"

namespace muster {

// A program run to its end, of any length, watched: podman, docker, skopeo. Blocks. It dies with
// this process, by the kernel's hand.
struct WatchedProgram {
  std::vector<std::string> argv;
  std::map<std::string, std::string> environment{};
  std::string input{};  // from memory alone: a secret may be in it
  std::string log{};    // a file to which it says all; empty: kept in memory
  std::string fills{};  // a directory whose growth counts as its progress
  // Every half second, while anything moves: what it has read, written or said, or `fills`.
  std::function<void(std::int64_t filled)> on_moved{};
  std::chrono::seconds silence{0};  // then it is killed; 0: never
};

struct ProgramEnd {
  bool is_ok = false;
  std::string output{};
  std::string errors{};  // of a log: its last words
};

ProgramEnd run_watched(const WatchedProgram& program);

class ImageFetch {
 public:
  using Tell = std::function<void(std::string_view doing)>;
  struct Failure {
    std::string why;
    bool is_lasting = false;   // the job's own doing: no node and no later try does better
    bool no_registry = false;  // this node cannot reach it
  };

  // `environment` is the runtime's own, `home` muster's directory on the node.
  ImageFetch(ImagePull wanted, std::string home, std::map<std::string, std::string> environment,
             Tell tell);

  // Runs under name_on_node, which it gets unless this only looks. An Error: no runtime here.
  Result<bool> is_here(bool names_it = true);
  // Where the runtime keeps images, after is_here; empty: it does not say.
  std::string place_of_images();
  // `layout`: a directory with the image as files; empty: from the registry.
  std::optional<Failure> bring(const std::string& layout);

 private:
  using Words = std::vector<std::string>;

  bool has(const std::string& name);
  bool give_name(const std::string& name);
  std::optional<Failure> bring_alone(const std::string& layout);
  Words pull_words(const std::string& layout) const;
  ProgramEnd fetch(const Words& words);
  ProgramEnd unpack();
  ProgramEnd run(const Words& words);

  ImagePull wanted_;
  std::string directory_;
  std::string key_;  // of its files
  std::map<std::string, std::string> environment_;
  Tell tell_;
  ContainerRuntime runtime_ = ContainerRuntime::podman;
};

inline std::string images_in(const std::string& home) {
  return home + "/images";
}
// In `images`, by name_on_node.
std::string unpacked_image(const std::string& images, const std::string& name);

// The variables of an unpacked image; none where it has no such file.
Result<std::map<std::string, std::string>> variables_of_image(const std::string& unpacked);

// Directories, and files where the second is true, below `root`: made where they are missing.
Status make_mount_points(const std::string& root,
                         const std::vector<std::pair<std::string, bool>>& points);

// What killed pulls have left in a home.
void remove_left_image_parts(const std::string& home);

// "image 1.2 of 7.9 GB".
std::string image_progress(std::int64_t come, std::int64_t all);

}  // namespace muster
