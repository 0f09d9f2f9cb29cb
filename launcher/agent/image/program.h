// A program run to its end, of any length, watched: podman, docker, skopeo. Blocks. It dies with
// this process, by the kernel's hand.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "launcher/agent/node/spawn.h"

namespace muster {

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

}  // namespace muster
