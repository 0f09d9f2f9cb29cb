// Processes that a node should not have: stuck in the kernel, or left by a job that ended.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "health/model/check.h"

namespace muster {

struct ProcessState {
  std::string name;
  char state = '?';               // 'D': uninterruptible sleep
  std::uint64_t start_ticks = 0;  // since the node started: tells a reused number
  std::uint64_t cpu_ticks = 0;    // user and system time so far, of all threads
  // How often its first thread went to sleep so far; nothing: not asked.
  std::optional<std::uint64_t> sleeps;
};

// /proc/N/stat. The name may hold spaces and brackets.
std::optional<ProcessState> parse_process_stat(std::string_view text);
// voluntary_ctxt_switches of /proc/N/status.
std::optional<std::uint64_t> parse_sleeps(std::string_view text);

using ProcessStates = std::map<int, ProcessState>;  // by process number
ProcessStates process_states_of(const SourceFiles& files);

// For read_files: the states of all processes, and then more closely those that slept so.
std::vector<std::string> process_sources();
std::vector<std::string> process_sources_after(const ProcessStates& first);

struct StuckProcess {
  int pid = 0;
  std::string name;
  friend bool operator==(const StuckProcess&, const StuckProcess&) = default;
};

inline constexpr std::size_t stuck_samples = 5;  // a second or more apart

// In uninterruptible sleep in every sample, and never awake between them: one that writes much is
// often found asleep too, but gets on.
std::vector<StuckProcess> stuck_processes(std::span<const ProcessStates> samples);
// Unknown when no process could be read, or one sleeps and there are fewer than stuck_samples.
HealthFinding judge_stuck(const CheckSpec& check, std::span<const ProcessStates> samples);
// Whether any process sleeps so now.
bool has_sleeper(const SourceFiles& look);

struct ProcessSeen {
  int pid = 0;
  std::int64_t uid = 0;
  char state = '?';
  std::string name;
  std::string
      token;  // of the job that started it, from its environment; empty: none, or unreadable
};

// A job's processes, by the token that it gives all of them, and by the user where nothing else of
// his may run on the node.
struct EndedJob {
  std::string token;
  std::optional<std::int64_t> uid;
};

std::vector<ProcessSeen> leftovers_of(std::span<const ProcessSeen> processes,
                                      std::span<const EndedJob> ended);
// Nothing when no job ended.
std::optional<HealthFinding> judge_leftovers(const CheckSpec& check,
                                             std::span<const ProcessSeen> processes,
                                             std::span<const EndedJob> ended);

}  // namespace muster
