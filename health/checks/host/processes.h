// Processes that a node should not have: stuck in the kernel, or left by a job that ended.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "health/model/source_files.h"

namespace muster {

struct ProcessState {
  std::string name;
  char state = '?';               // 'D': uninterruptible sleep
  std::uint64_t start_ticks = 0;  // since the node started: tells a reused number
  std::uint64_t cpu_ticks = 0;    // user and system time so far, of all threads
  // How often its first thread went to sleep so far; nothing: not asked.
  std::optional<std::uint64_t> sleeps;
};

using ProcessStates = std::map<int, ProcessState>;  // by process number
ProcessStates process_states_of(const SourceFiles& files);

// For read_files: the states of all processes, and then more closely those that slept so.
std::vector<std::string> process_sources();
std::vector<std::string> process_sources_after(const ProcessStates& first);

inline constexpr std::size_t stuck_samples = 5;  // a second or more apart
// Whether any process sleeps so now.
bool has_sleeper(const SourceFiles& look);

}  // namespace muster
