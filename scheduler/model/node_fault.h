// What is believed to be wrong with a node, after enough bad samples: a health check's verdict as
// the scheduler needs it. Made by the node's agent.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "scheduler/model/ids.h"
#include "scheduler/model/keep.h"
#include "scheduler/text/clock.h"
#include "scheduler/text/fields.h"

namespace muster {

// What becomes of a node, mildest first. `warn` is written down; from `drain` on it gets no new
// job, is brought back by what the word says, and is held for a person at `rma`.
enum class Remedy : std::uint8_t { warn, drain, reset, reboot, rma };

// Whose fault it is. Only a node's climbs from one remedy to the next.
enum class FaultClass : std::uint8_t { node, user, setup, infra };

struct NodeFault {
  std::string id;      // the same for the same check, device, serial and cause
  std::string check;   // "gpu.xid"
  std::string device;  // "gpu3"; empty: the node itself
  std::string serial;  // of the board; empty: the host's counts
  FaultClass fault_class = FaultClass::node;
  std::string code;  // what tells faults of one check apart: the number of an XID
  Remedy remedy = Remedy::drain;
  std::optional<Remedy> on_recurrence{};  // when it comes again after the remedy
  bool stops_job = false;                 // the job on the node cannot go on there
  bool in_doubt = false;                  // what was computed there lately may be wrong
  bool shared_cause = false;          // usually many nodes have it together: a file server is away
  bool enforced = true;               // false: told only, with what it would have done
  Time since;                         // when it was believed
  std::string what;                   // "XID 79 on gpu3: the GPU has fallen off the bus"
  std::vector<std::string> evidence;  // raw lines

  MUSTER_FIELDS(id, check, device, serial, (class, fault_class), code, remedy, on_recurrence,
                stops_job, in_doubt, shared_cause, enforced, since, what, evidence)
};

// Whether two lists of faults call for the same: a value that grew meanwhile is no news.
inline bool call_for_the_same(const std::vector<NodeFault>& a, const std::vector<NodeFault>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const auto& x, const auto& y) {
    return x.id == y.id && x.remedy == y.remedy && x.stops_job == y.stops_job &&
           x.in_doubt == y.in_doubt && x.enforced == y.enforced && x.since == y.since;
  });
}

// A mere warning that is remembered: it decides what its next coming calls for.
inline bool recurs(const NodeFault& fault) {
  return fault.remedy == Remedy::warn && fault.on_recurrence && fault.enforced &&
         !fault.code.empty();
}

// What a fault called for, remembered by the board's serial: boards move between hosts.
struct RemedyTaken {
  Time at;        // when the fault was believed
  Time asked_at;  // when the core first acted on it: later, where others were waited for
  NodeId node;
  std::string serial;  // empty: the node's device counts
  std::string device;
  std::string check;
  std::string code;
  Remedy remedy = Remedy::warn;
  std::string job;  // that ran there; empty: none
};

// All faults that stand on a node.
struct NodeFaultsSeen {
  static constexpr const char* kind = "node_faults_seen";
  static constexpr Keep keep = Keep::while_faulty;
  NodeId node;
  std::vector<NodeFault> faults;  // worst first
  // Every check has answered often enough that a fault that is not here is none.
  bool settled = true;
  std::optional<JobId> owner{};  // of the node then

  // Empty: it has none.
  std::string keep_key() const {
    if (faults.empty()) return "";
    return std::ranges::any_of(faults, recurs) ? "recurs" : "stands";
  }
  MUSTER_FIELDS(node, faults, settled, owner)
};

// One of them keeps new jobs from the node, until it is over or somebody undrains the node.
struct NodeFaulted {
  static constexpr const char* kind = "node_faulted";
  static constexpr Keep keep = Keep::month;
  NodeId node;
  NodeFault fault;
  std::string reason;            // "muster:node:gpu.xid:gpu3 6f01ab22"
  std::optional<JobId> owner{};  // of the node then

  MUSTER_FIELDS(node, fault, reason, owner)
};

struct NodeFaultOver {
  static constexpr const char* kind = "node_fault_over";
  static constexpr Keep keep = Keep::newest;
  NodeId node;
  std::string reason;  // that it was drained for

  MUSTER_FIELDS(node, reason)
};

// The reason that a node drained for a fault carries:
//   muster:<class>:<check>:<device> <finding-id>      "muster:node:ib.symbol:mlx5_3:1 6f01ab22"
// Only a reason of exactly this form is muster's own; with a word of a person in it, it is theirs.

// Hexadecimal, of the fault.
inline constexpr std::size_t fault_id_digits = 8;

struct DrainReason {
  FaultClass fault_class = FaultClass::node;
  std::string check;
  std::string device;
  std::string id;

  friend bool operator==(const DrainReason&, const DrainReason&) = default;
};

// Characters that would end a word of a reason are written as `_`.
DrainReason drain_reason(FaultClass fault_class, std::string_view check, std::string_view device,
                         std::string id);
std::string text_of(const DrainReason& reason);

// Nothing: a foreign reason. What Slurm adds when it shows one, ` [root@2026-03-01T10:00:00]`, is
// passed over.
std::optional<DrainReason> parse_drain_reason(std::string_view text);

}  // namespace muster
