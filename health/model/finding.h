// What a health check says about a node or one of its devices.
#pragma once

#include <array>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "scheduler/model/names.h"
#include "scheduler/model/node_fault.h"
#include "scheduler/text/fields.h"

namespace muster {

// unknown: the source could not be read, or says nothing that can be judged. Never a pass.
enum class CheckStatus { pass, fail, unknown };

struct CheckSeverity {
  Remedy remedy = Remedy::warn;
  std::optional<Remedy> on_recurrence;  // the next step, when it comes again after the remedy
  bool stops_job = false;               // the job on the node cannot go on there
  friend bool operator==(const CheckSeverity&, const CheckSeverity&) = default;

  MUSTER_FIELDS(remedy, on_recurrence, stops_job)
};

inline constexpr CheckSeverity only_warn{Remedy::warn, {}, false};

// The outcome of one check on one device, with all that its defence needs.
struct HealthFinding {
  std::string check;   // "ib.symbol"
  std::string device;  // "mlx5_3:1", "gpu2"; empty: the node itself
  std::string serial;  // of the board, where it has one: histories follow it to another node
  CheckStatus status = CheckStatus::unknown;
  CheckSeverity severity;  // of a failure
  FaultClass fault_class = FaultClass::node;
  std::string value;     // what was found: "131"
  std::string expected;  // "<= 120"
  std::string unit;      // "1/h"; empty: a word or a count
  std::string source;    // where it was read: a path, a function, "kmsg"
  // unknown: why. Else raw lines.
  std::vector<std::string> evidence;

  friend bool operator==(const HealthFinding&, const HealthFinding&) = default;

  MUSTER_FIELDS(check, device, serial, status, severity, (class, fault_class), value, expected,
                unit, source, evidence)
};

inline constexpr std::array<std::string_view, 3> check_status_words{"pass", "fail", "unknown"};
constexpr std::string_view word_of(CheckStatus status) {
  return check_status_words.at(static_cast<std::size_t>(status));
}
// Higher is worse: a value that was read and is bad is worse than none.
constexpr int badness_of(CheckStatus status) {
  constexpr int by_status[] = {0, 2, 1};
  static_assert(std::size(by_status) == check_status_words.size());
  return by_status[static_cast<std::size_t>(status)];
}
constexpr std::string_view word_of(Remedy remedy) {
  return word(remedy);
}
constexpr std::string_view word_of(FaultClass fault_class) {
  return word(fault_class);
}
// "!reboot>rma": `!` stops the job, `>` leads to what comes on recurrence.
std::string text_of(const CheckSeverity& severity);

// Findings put behind others.

inline void append_findings(std::vector<HealthFinding>& all, std::vector<HealthFinding> more) {
  all.insert(all.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
}

inline void append_findings(std::vector<HealthFinding>& all, std::optional<HealthFinding> finding) {
  if (finding) all.push_back(*std::move(finding));
}

}  // namespace muster
