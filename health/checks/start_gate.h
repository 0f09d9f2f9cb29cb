// The checks that a node passes before each attempt: facts in, failures out. Pure functions; a fact
// that could not be read is a failure that says so, never a pass.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "scheduler/model/record.h"

namespace muster {

// An attempt stages code and spools output: below this the first gigabyte of output would fill the
// disk.
inline constexpr std::int64_t free_disk_min_bytes = 1ll << 30;
// A Python interpreter with an imported framework needs about this much before it allocates
// anything.
inline constexpr std::int64_t memory_available_min_bytes = 256ll << 20;
// File times, certificates and leases of other systems go wrong by then; the measured value holds
// the message's travel time, which is why it is not stricter.
inline constexpr std::int64_t clock_offset_max_ms = 2000;

struct StartGateFacts {
  std::string host_name;
  std::string home;
  std::string home_error;  // empty: a file could be created there
  std::optional<std::int64_t> free_disk_bytes;
  std::optional<std::int64_t> memory_available_bytes;
  std::int64_t now_ms = 0;  // the node's wall clock
  std::vector<std::string> missing_programs;
};

struct StartGateWanted {
  std::string expected_host;      // empty: any
  std::int64_t now_ms = 0;        // the controller's wall clock; 0: not told
  std::vector<std::string> skip{};  // check ids; `all` skips every one
  std::vector<std::string> only{};  // these alone; empty: all
};

// Their ids: host.name, host.home, host.disk, host.mem, host.clock, host.programs.
std::vector<std::string_view> start_gate_checks();

std::vector<CheckFailure> judge_start_gate(const StartGateFacts& facts,
                                           const StartGateWanted& wanted);

}  // namespace muster
