// What a controller and a relay (`muster agent relay`) say to each other, framed like the messages
// to agents. A relay logs in to further nodes and carries the bytes of each under a ticket, which
// the controller chooses and never uses twice.
//
// Every ticket has a window of its own in both directions: whoever sends bytes has got room for
// them, at first relay_window_bytes, later as much as the other side said in RelayRoom. So one
// ticket that nobody reads holds up no other, and nothing piles up.
//
//   RelayConnect -> (HostKeySeen -> HostKeyJudged, SignAsked -> Signed)* -> RelayConnected
//   RelayDeepen  -> RelayConnected: a relay on the node of another ticket
//   then RelayBytes and RelayRoom both ways, until RelayClosed or RelayHangUp
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "scheduler/model/compute.h"
#include "scheduler/model/link.h"
#include "scheduler/model/outcome.h"

namespace muster {

// Covers 5 ms of round trip at 100 MB/s; sixteen children hold at most 8 MiB on their parent.
inline constexpr std::int64_t relay_window_bytes = 512 * 1024;

struct RelayConnect {
  static constexpr const char* kind = "relay_connect";
  std::int64_t ticket = 0;
  NodeAddress node;
  std::string build_id;
  std::string controller_id;
  std::string home;                         // of muster on the node, "~/…" allowed
  ConnectSettings connect;
  std::vector<std::string> host_key_types;  // on record for the node: the ones to ask it for
  std::vector<std::string> keys;            // public, base64, that the controller can sign with

  template <class Self, class Visit>
  static void fields(Self& self, Visit visit) {
    visit("ticket", self.ticket);
    visit("node", self.node);
    visit("build_id", self.build_id);
    visit("controller_id", self.controller_id);
    visit("home", self.home);
    visit("connect", self.connect);
    visit("host_key_types", self.host_key_types);
    visit("keys", self.keys);
  }
};

struct RelayDeepen {
  static constexpr const char* kind = "relay_deepen";
  std::int64_t ticket = 0;
  std::int64_t over = 0;  // a ticket that is connected

  template <class Self, class Visit>
  static void fields(Self& self, Visit visit) {
    visit("ticket", self.ticket);
    visit("over", self.over);
  }
};

struct RelayBytes {  // payload: what was read
  static constexpr const char* kind = "relay_bytes";
  std::int64_t ticket = 0;

  template <class Self, class Visit>
  static void fields(Self& self, Visit visit) {
    visit("ticket", self.ticket);
  }
};

struct RelayRoom {  // so many bytes more may be sent
  static constexpr const char* kind = "relay_room";
  std::int64_t ticket = 0;
  std::int64_t bytes = 0;

  template <class Self, class Visit>
  static void fields(Self& self, Visit visit) {
    visit("ticket", self.ticket);
    visit("bytes", self.bytes);
  }
};

struct RelayHangUp {
  static constexpr const char* kind = "relay_hang_up";
  std::int64_t ticket = 0;

  template <class Self, class Visit>
  static void fields(Self& self, Visit visit) {
    visit("ticket", self.ticket);
  }
};

struct HostKeyJudged {
  static constexpr const char* kind = "host_key_judged";
  std::int64_t ticket = 0;
  bool is_trusted = false;

  template <class Self, class Visit>
  static void fields(Self& self, Visit visit) {
    visit("ticket", self.ticket);
    visit("is_trusted", self.is_trusted);
  }
};

struct Signed {  // payload: the signature; none: refused
  static constexpr const char* kind = "signed";
  std::int64_t ticket = 0;

  template <class Self, class Visit>
  static void fields(Self& self, Visit visit) {
    visit("ticket", self.ticket);
  }
};

// Answered at once: shows that the other end lives.
struct RelayPing {
  static constexpr const char* kind = "relay_ping";

  template <class Self, class Visit>
  static void fields(Self&, Visit) {}
};

struct RelayConnected {
  static constexpr const char* kind = "relay_connected";
  std::int64_t ticket = 0;
  std::vector<PhaseTime> profile;  // where the time went, in order
  std::string methods;

  template <class Self, class Visit>
  static void fields(Self& self, Visit visit) {
    visit("ticket", self.ticket);
    visit("profile", self.profile);
    visit("methods", self.methods);
  }
};

struct RelayClosed {  // also in place of RelayConnected
  static constexpr const char* kind = "relay_closed";
  std::int64_t ticket = 0;
  LinkFailure failure;

  template <class Self, class Visit>
  static void fields(Self& self, Visit visit) {
    visit("ticket", self.ticket);
    visit("failure", self.failure);
  }
};

struct HostKeySeen {  // payload: the key
  static constexpr const char* kind = "host_key_seen";
  std::int64_t ticket = 0;

  template <class Self, class Visit>
  static void fields(Self& self, Visit visit) {
    visit("ticket", self.ticket);
  }
};

struct SignAsked {  // payload: what is to be signed, a login and nothing else
  static constexpr const char* kind = "sign_asked";
  std::int64_t ticket = 0;
  std::string key;  // one of RelayConnect::keys

  template <class Self, class Visit>
  static void fields(Self& self, Visit visit) {
    visit("ticket", self.ticket);
    visit("key", self.key);
  }
};

using ToRelay = std::variant<RelayConnect, RelayDeepen, RelayBytes, RelayRoom, RelayHangUp,
                             HostKeyJudged, Signed, RelayPing>;
using FromRelay = std::variant<RelayConnected, RelayClosed, RelayBytes, RelayRoom, HostKeySeen,
                               SignAsked, RelayPing>;

}  // namespace muster
