// What mpirun asks of the other nodes of its attempt, through the controller: daemons, each by a
// ticket until it has ended. Owned by Agent, on its thread.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "launcher/agent/attempt/attempt.h"
#include "launcher/agent/node/peer.h"

namespace muster {

class RemoteStarts {
 public:
  explicit RemoteStarts(const AgentSite& site) : site_(site) {}

  // `attempt`: the one that is asked for, null where there is none.
  void ask(const std::shared_ptr<PeerConnection>& asker, RemoteStartAsked asked,
           const LocalAttempt* attempt);
  void ended(const RemoteStartEnded& ended);
  // The controller may not have got what was asked over an earlier connection. The other node knows
  // a daemon that it has started already.
  void tell_again() const;

 private:
  struct Ask {
    std::shared_ptr<PeerConnection> asker;
    RemoteStartAsked asked;
  };

  const AgentSite& site_;
  std::map<std::string, Ask> asks_;  // by ticket
  std::uint64_t next_ticket_ = 1;
};

}  // namespace muster
