// A check is one row: what it reads, when it passes, what a failure leads to, when it runs, what a
// profile may set of it, and its judge. Rows stand beside their judges in health/checks,
// health/fabric and health/model; every_check() has all of them. Data and pure functions.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "health/model/finding.h"
#include "health/model/profile.h"
#include "health/model/source_files.h"
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

// Sources that are read together, each at its own pace while ranks run.
enum class SourceGroup : std::uint8_t {
  none = 0,                 // not judged from the node's own sources
  infiniband_state = 1,     // within 5 s
  infiniband_counters = 2,  // every 30 s
  gpu = 4,                  // every 60 s
  host = 8,                 // every 60 s
  processes = 16            // every 2 min; stuck ones: five looks a second apart
};

// A number that a profile may set under the check's name.
struct CheckLimit {
  std::string_view name;          // "drain_per_h"; `*` stands for any text: "gpu*_numa_node"
  std::string_view unit;          // "1/h"; empty: a count, or a number of nothing
  std::optional<double> usual{};  // nothing: judged only where a profile says it
  double lowest = 0;
  double highest = 1e15;
  bool is_whole = false;
};

struct CheckInput;
struct BaselineNode;

struct CheckSpec {
  std::string_view id;      // "gpu.remap_failure"
  std::string_view source;  // for people: "nvmlDeviceGetRemappedRows"
  std::string_view says;    // when it passes: "no failure"
  CheckSeverity severity = only_warn;
  FaultClass fault = FaultClass::node;
  Persistence believe = Persistence::samples;
  Phases phases = 0;
  std::chrono::microseconds cost{100};  // of one run, on one device
  // What it finds is usually found on many nodes at once: a file server, a subnet manager, power.
  bool is_often_shared = false;
  bool is_of_link = false;  // links train for minutes after a boot
  SourceGroup group = SourceGroup::none;
  // For read_files, besides what all checks of the group read (gpu_sources, infiniband_sources).
  std::initializer_list<std::string_view> reads{};
  std::vector<std::string> (*reads_for)(const HealthProfile&) = nullptr;
  std::initializer_list<CheckLimit> limits{};
  // Enforced where a profile says nothing else, and not only observed.
  bool (*is_certain)(const HealthProfile&) = nullptr;
  bool is_always_required = false;  // it has no other failure than silence
  // Whether this profile has the check judge what the finding is about; nothing: each has.
  bool (*is_asked)(const HealthProfile&, const HealthFinding&) = nullptr;
  // Nothing: who reads its source judges it (the kernel's log, benchmarks, the fabric's tools).
  std::vector<HealthFinding> (*judge)(const CheckInput&) = nullptr;
  // Takes what it compares with from a node that is known to be good.
  void (*learn)(BaselineNode&) = nullptr;
};

// As the profile sets it, else the usual one of the row, which must have the limit.
std::optional<double> limit_of(const HealthProfile& profile, const CheckSpec& check,
                               std::string_view name);

struct HostSituation;
struct GpuLook;
struct InfinibandLook;

// What a judge is given: one reading of the files, the profile, and for its kind of check what else
// is known and remembered (health/checks/{host/host_checks,gpu/gpu_check,infiniband/port}.h).
struct CheckInput {
  const SourceFiles& files;
  const HealthProfile& profile;
  const CheckSpec* spec = nullptr;  // of the check that is judged
  const HostSituation* host = nullptr;
  const GpuLook* gpu = nullptr;
  const InfinibandLook* ib = nullptr;
  // At processes, a second apart; empty: too few to tell who is stuck.
  std::span<const SourceFiles> looks{};
  std::string_view helper_name{};  // of the process of ours that asks the driver

  const CheckSpec& check() const { return *spec; }
  std::optional<double> limit_if_any(std::string_view name) const {
    return limit_of(profile, check(), name);
  }
  double limit(std::string_view name) const;  // of one that has a usual value
};

// All checks of a kind, in the order in which they are judged.
std::span<const CheckSpec> gpu_checks();
std::span<const CheckSpec> infiniband_checks();
std::span<const CheckSpec> fabric_checks();
std::span<const CheckSpec> host_checks();
std::span<const CheckSpec> kernel_log_checks();
std::span<const CheckSpec> performance_checks();
// The rows of several files as one table.
std::vector<CheckSpec> joined_rows(std::initializer_list<std::span<const CheckSpec>> tables);

// What the checks of the group among `checks` find that have a judge.
std::vector<HealthFinding> judge_group(std::span<const CheckSpec> checks, SourceGroup group,
                                       CheckInput input);

// All of them (health/checks/registry.cpp), by kind: gpu, ib, fab, host, perf.
const std::vector<const CheckSpec*>& every_check();
// Nothing when there is no such check.
const CheckSpec* find_check(std::string_view id);

// `name` as the row has it, or `clear_after_s`, which every check has. Nothing: no such limit.
const CheckLimit* find_limit(const CheckSpec& check, std::string_view name);

// Whether the cause is as likely outside of the node as in it.
bool has_shared_cause(const HealthFinding& finding);

// With the check's severity, class and source.
HealthFinding make_finding(const CheckSpec& check, std::string device, CheckStatus status,
                           std::string value = {}, std::string expected = {},
                           std::string evidence = {});

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
