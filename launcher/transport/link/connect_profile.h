// Where the time to reach a node went. The phases of a ConnectProfile, in order, are `resolve`,
// `tcp`, `kex`, `auth`, `shell` (the login shell and its start files), `push` and `agent`. Pure.
#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "launcher/transport/link/transport.h"

namespace muster {

// A login shell that runs longer than this before our command has a slow start file.
inline constexpr Milliseconds slow_shell{2000};

// "tcp 1 ms, kex 4 ms, …"; points at ~/.bashrc when the shell was slow.
std::string describe(const ConnectProfile& profile);

// Collects a profile: each `finish` closes the phase that began at the one before it.
class PhaseTimer {
 public:
  void restart() { since_ = std::chrono::steady_clock::now(); }
  void finish(std::string_view phase);  // a repeated phase adds up
  const ConnectProfile& profile() const { return profile_; }
  void append(const ConnectProfile& earlier);

 private:
  std::chrono::steady_clock::time_point since_ = std::chrono::steady_clock::now();
  ConnectProfile profile_;
};

}  // namespace muster
