// All checks as data: what each reads, when it passes, what a failure leads to, when it runs and
// what it costs. The judging functions look a check up here and add what they found.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <span>
#include <string_view>

#include "health/model/finding.h"
#include "scheduler/model/names.h"

namespace muster {

// When a check runs; a check may have several.
enum class Phase : std::uint8_t {
  prolog = 1,         // before ranks start
  periodic = 2,       // while they run
  epilog = 4,         // after they ended
  on_failure = 8,     // when the job failed
  on_demand = 16,     // when a person asks: may take the whole node
  qualification = 32  // after a repair, or when a node was long unseen: all of them
};
using Phases = std::uint8_t;
constexpr Phases operator|(Phase a, Phase b) {
  return static_cast<Phases>(static_cast<Phases>(a) | static_cast<Phases>(b));
}
constexpr Phases operator|(Phases a, Phase b) {
  return static_cast<Phases>(a | static_cast<Phases>(b));
}
constexpr bool has(Phases phases, Phase phase) {
  return (phases & static_cast<Phases>(phase)) != 0;
}

// How often in a row a check fails before it is believed.
enum class Persistence {
  event,   // once: it happened
  delta,   // once: a counter grew
  samples  // several times in a row: a state may be seen half way through a change
};

struct CheckSpec {
  std::string_view id;         // "gpu.remap_failure"
  std::string_view source;     // "nvmlDeviceGetRemappedRows"
  std::string_view criterion;  // "no failure"
  CheckSeverity severity;
  FaultClass fault_class = FaultClass::node;
  Persistence persistence = Persistence::samples;
  Phases phases = 0;
  std::chrono::microseconds cost{100};  // of one run, on one device
  // What it finds is usually found on many nodes at once: a file server, a subnet manager, power.
  bool is_often_shared = false;
};

std::span<const CheckSpec> gpu_checks();
std::span<const CheckSpec> infiniband_checks();
std::span<const CheckSpec> fabric_checks();
std::span<const CheckSpec> host_checks();
std::span<const CheckSpec> performance_checks();

// Whether the cause is as likely outside of the node as in it.
bool has_shared_cause(const HealthFinding& finding);

// Nothing when there is no such check.
const CheckSpec* find_check(std::string_view id);

// A finding of a check that exists, with its severity and class.
HealthFinding make_finding(std::string_view check, std::string device, CheckStatus status);

// The words of a finding's enumerations for the codecs, as they stand in JSON.

template <>
struct EnumWords<CheckStatus> {
  static constexpr auto words = check_status_words;
};
template <>
struct EnumWords<Persistence> {
  static constexpr auto words = std::to_array<std::string_view>({"event", "delta", "samples"});
};

}  // namespace muster
