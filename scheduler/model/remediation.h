// The words of a site's remedy command with what they are about put in. No shell ever reads them:
// each placeholder stays inside its word. What an agent says of its devices is not trusted: a value
// that could be taken for an option, or has odd characters, makes no command.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "scheduler/model/ids.h"
#include "scheduler/model/keep.h"
#include "scheduler/model/node_fault.h"
#include "scheduler/model/outcome.h"
#include "scheduler/text/clock.h"
#include "scheduler/text/fields.h"

namespace muster {

// {node} its name · {gpu} the number in "gpu3", or the PCI address of one without a number: what
// `nvidia-smi -i` takes · {device} "gpu3" · {serial} of the board · {finding} the check, "gpu.xid"
inline constexpr std::array<std::string_view, 5> remedy_placeholders{"node", "gpu", "device",
                                                                     "serial", "finding"};

// The first placeholder that there is not, without braces; nothing: all are known.
std::optional<std::string> unknown_placeholder(std::string_view word);

// The first placeholder for which the fault says nothing, or says it oddly, without braces.
std::optional<std::string> unfit_placeholder(const std::vector<std::string>& words,
                                             const NodeId& node, const NodeFault& fault);

// Nothing: there is an unfit placeholder.
std::optional<std::vector<std::string>> remedy_argv(const std::vector<std::string>& words,
                                                    const NodeId& node, const NodeFault& fault);

// Resets and reboots that muster carries out itself, with the commands of the site
// (RemedyCommands): what the journal says of each time.
//
//   (idle, drained for a fault) ─► RemedyBegun ─► RemedyEnded, the command ─► RemedyOver
//                                       └──────── another boot, or too late ────────┘

// In this order, as far as a fault calls for them.
enum class RemedyStep : std::uint8_t { reset, reboot, reboot_from_here };

struct RemedyTry {
  Time at;
  std::string fault;  // NodeFault::id
  RemedyStep step = RemedyStep::reset;
  std::string failure;  // empty: it was done, or goes on

  MUSTER_FIELDS(at, fault, step, failure)
};

// Decided. Says all that was tried on the node lately, because records of nodes are read back no
// further than to the newest of a kind.
struct RemedyBegun {
  static constexpr const char* kind = "remedy_begun";
  static constexpr Keep keep = Keep::month;
  NodeId node;
  std::string id;  // of this one run: its agent does it once
  RemedyStep step = RemedyStep::reset;
  NodeFault fault;  // with what it calls for by now
  std::vector<std::string> argv;
  std::string agent_id;  // that does it, or answered last
  std::string boot_id;   // of the host then; empty: it was not known
  std::vector<RemedyTry> before;

  MUSTER_FIELDS(node, id, step, fault, argv, agent_id, boot_id, before)
};

// Observed: the command has ended, was not started (error) or was killed (error).
struct RemedyEnded {
  static constexpr const char* kind = "remedy_ended";
  static constexpr Keep keep = Keep::newest;
  NodeId node;
  std::string id;
  ExitStatus status;
  std::string error;
  std::vector<std::string> lines;  // the last that it wrote

  MUSTER_FIELDS(node, id, status, error, lines)
};

// Decided: it was done, or (failure) was not, as far as anybody can tell.
struct RemedyOver {
  static constexpr const char* kind = "remedy_over";
  static constexpr Keep keep = Keep::month;
  NodeId node;
  std::string id;
  RemedyStep step = RemedyStep::reset;
  std::string device;
  std::string what;     // NodeFault::what
  std::string failure;  // empty: done
  std::vector<std::string> lines;
  bool is_away = false;  // the node went down for it and did not come back

  MUSTER_FIELDS(node, id, step, device, what, failure, lines, is_away)
};

}  // namespace muster
