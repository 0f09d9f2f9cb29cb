// A drill file: a job, the faults injected while it runs, and what must hold afterwards. The format
// is described by `muster-sandbox drill --help` (command.cpp); this is the same as types.
// Reading is pure: text in, Drill and findings out.
#pragma once

#include <csignal>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "scheduler/text/clock.h"
#include "templates/parse_file.h"
#include "templates/yaml/finding.h"

namespace muster {

// `>= 20`
enum class Comparison { equal, not_equal, less, at_most, more, at_least };
struct NumberTest {
  Comparison comparison = Comparison::equal;
  std::int64_t number = 0;
  bool holds(std::int64_t value) const;
  std::string text() const;
};

struct StepTest {
  NumberTest test;
};
struct AttemptTest {
  NumberTest test;
};
struct StateTest {
  std::string state;
  bool equal = true;
};
struct CheckpointCommitted {};  // one newer than those there when the wait began
struct SaveBegun {};            // the directory of such a one is there, whatever is in it
struct OutputBegun {};          // the newest attempt has said a byte
using DrillCondition =
    std::variant<StepTest, AttemptTest, StateTest, CheckpointCommitted, SaveBegun, OutputBegun>;

// A time, or two between which one is drawn.
struct DrillPause {
  Milliseconds least{0};
  Milliseconds most{0};
};

// A process that can be hit. Absent ranks, nodes: one is drawn.
struct RankTarget {
  std::optional<int> rank;
};
struct AgentTarget {
  std::optional<std::string> node;
};
struct ConnectionTarget {
  std::optional<std::string> node;
};
struct ControllerTarget {};
using DrillTarget = std::variant<RankTarget, AgentTarget, ConnectionTarget, ControllerTarget>;

struct KillProcess {
  DrillTarget target;
  int signal = SIGKILL;
};
struct StopProcess {
  DrillTarget target;
  Milliseconds time{0};
};
struct PartitionHost {
  std::string host;
  std::optional<Milliseconds> time;  // absent: until `heal`
};
struct HealHost {
  std::string host;
};
struct FillDisk {
  std::string host;
  std::optional<Milliseconds> time;  // absent: to the end
};
struct CrashHost {
  std::string host;
};
struct BootHost {
  std::string host;
};
struct DrainNode {
  std::string node;
};
struct UndrainNode {
  std::string node;
};
struct CancelDrilled {};
using DrillAction = std::variant<KillProcess, StopProcess, PartitionHost, HealHost, FillDisk,
                                 CrashHost, BootHost, DrainNode, UndrainNode, CancelDrilled>;

// "kill rank 1 with KILL": for reports.
std::string describe(const DrillAction& action);

struct DrillStep {
  std::optional<DrillCondition> when;
  DrillPause after;
  DrillAction action;
  int line = 0;  // of the file
};

struct DrillSandbox {
  int hosts = 2;
  bool private_home = false;
  std::optional<int> home_mib;
};

struct DrillExpectations {
  std::optional<std::string> status;
  std::optional<NumberTest> exit_code;
  std::optional<NumberTest> attempts;
  std::vector<std::string> explain;  // each is somewhere in `muster explain`
  bool no_process_left = false;
  bool outputs_equal = false;
  std::vector<std::string> equal_paths;  // empty: all outputs
  std::string log_counts;                // "tick {n}"; empty: not asked for
};

struct Drill {
  std::string job;  // absolute path
  std::vector<std::string> sets;
  std::optional<DrillSandbox> sandbox;
  std::optional<std::uint64_t> seed;
  Milliseconds limit{600000};
  std::vector<DrillStep> steps;
  DrillExpectations expect;
};

struct DrillFile {
  Drill drill;  // meaningful without errors
  std::vector<Finding> findings;
};

DrillFile read_drill(const std::string& path, std::string_view text, const ReadOptions& options);

}  // namespace muster
