// What the ssh transports are told from outside: limits with their reasons, and where keys are.
#pragma once

#include <cstdint>
#include <string>

#include "launcher/transport/host_key_store.h"
#include "scheduler/model/clock.h"
#include "scheduler/model/compute.h"

namespace muster {

struct SshSettings {
  // One thread completes several hundred handshakes a second; 64 at once keep it busy over 80 ms of
  // round trip and still let each finish well within login_timeout.
  int max_handshakes = 64;
  // sshd's default MaxStartups 10:30:100 drops at random from the eleventh on, and we are not the
  // only ones who log in.
  int max_unauthenticated_per_address = 8;
  // Connections dropped during the handshake are tried again this often, 0.1 s to 3 s apart.
  int max_drops = 6;
  Milliseconds resolve_timeout{30000};  // two name servers that are silent, twice
  Milliseconds tcp_timeout{10000};  // three lost SYNs
  Milliseconds login_timeout{45000};  // below sshd's LoginGraceTime, above a slow DNS
  Milliseconds silence{15000};  // unanswered TCP probes for this long: the link is lost
  std::uint64_t jitter_seed = 1;

  std::string user;             // login name when the cluster file has none
  std::string key_folder;       // ~/.ssh: id_ed25519, id_ecdsa
  std::string agent_socket;     // SSH_AUTH_SOCK; empty: no agent
  HostKeyPolicy host_keys;      // where the ssh configuration says nothing
  std::string own_known_hosts;  // muster's, unknown hosts are pinned here
};

// A node, with what the user's ssh configuration adds to the cluster file.
struct SshTarget {
  NodeAddress node;
  HostKeyPolicy host_keys;
};

// The limits above, and the paths as this process's environment and account give them.
SshSettings ssh_settings_from_environment(const std::string& muster_home);

}  // namespace muster
