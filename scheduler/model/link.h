// Why a node cannot be talked to. Data for the journal: the transports say it, `decide` reads it.
#pragma once

#include <string>

#include "scheduler/text/fields.h"

namespace muster {

enum class LinkFailureKind {
  unknown_host,      // the name does not resolve
  unreachable,       // refused, timed out, no route: may heal
  refused_key,       // no key of ours is accepted
  changed_host_key,  // the pinned host key differs: never connected to
  shell,             // the remote shell or our binary did not start
  disk_full,         // the agent's binary or directory could not be written
  wrong_build,       // another protocol, or a binary for another machine
  lost,              // was connected, then closed or silent: may heal
};

struct LinkFailure {
  LinkFailureKind kind = LinkFailureKind::lost;
  std::string message;     // a whole sentence that names host and cure
  bool is_silent = false;  // lost without an end of the connection: the host may be dead
  // The host, or a router before it, has answered that nothing takes connections there.
  bool is_denied = false;

  MUSTER_FIELDS(kind, message, is_silent, is_denied)
};

// Waiting does not mend these: a job that needs the node fails at once.
inline bool is_permanent(LinkFailureKind kind) {
  return kind != LinkFailureKind::unreachable && kind != LinkFailureKind::lost;
}

}  // namespace muster
