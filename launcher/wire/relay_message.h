// What a controller and a relay (`muster agent relay`) say to each other, framed like the messages
// to agents. A relay starts what runs on further nodes, by a transport that needs no login, and
// carries the bytes of each under a ticket, which the controller chooses and never uses twice.
//
// Every ticket has a window of its own in both directions: whoever sends bytes has got room for
// them, at first relay_window_bytes, later as much as the other side said in RelayRoom. So one
// ticket that nobody reads holds up no other, and nothing piles up.
//
//   RelayConnect -> RelayConnected, then RelayBytes and RelayRoom both ways, until RelayClosed or
//   RelayHangUp
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "launcher/wire/agent_request.h"
#include "scheduler/model/compute.h"
#include "scheduler/model/link.h"
#include "scheduler/model/outcome.h"
#include "scheduler/text/fields.h"

namespace muster {

// Covers 5 ms of round trip at 100 MB/s; sixteen children hold at most 8 MiB on their parent.
inline constexpr std::int64_t relay_window_bytes = 512 * 1024;

struct RelayConnect {
  std::int64_t ticket = 0;
  NodeAddress node;
  std::string build_id;
  std::string controller_id;
  std::string home;       // of muster on the node, "~/…" allowed
  bool is_relay = false;  // wanted is a relay on the node, not its agent

  MUSTER_MESSAGE("relay_connect", ticket, node, build_id, controller_id, home, is_relay)
};

struct RelayBytes {  // payload: what was read
  std::int64_t ticket = 0;

  MUSTER_MESSAGE("relay_bytes", ticket)
};

struct RelayRoom {  // so many bytes more may be sent
  std::int64_t ticket = 0;
  std::int64_t bytes = 0;

  MUSTER_MESSAGE("relay_room", ticket, bytes)
};

struct RelayHangUp {
  std::int64_t ticket = 0;

  MUSTER_MESSAGE("relay_hang_up", ticket)
};

// Answered at once: shows that the other end lives.
struct RelayPing : NoFields {
  static constexpr const char* kind = "relay_ping";
};

struct RelayConnected {
  std::int64_t ticket = 0;
  std::vector<PhaseTime> profile;  // where the time went, in order

  MUSTER_MESSAGE("relay_connected", ticket, profile)
};

struct RelayClosed {  // also in place of RelayConnected
  std::int64_t ticket = 0;
  LinkFailure failure;

  MUSTER_MESSAGE("relay_closed", ticket, failure)
};

using ToRelay = std::variant<RelayConnect, RelayBytes, RelayRoom, RelayHangUp, RelayPing>;
using FromRelay = std::variant<RelayConnected, RelayClosed, RelayBytes, RelayRoom, RelayPing>;

}  // namespace muster
