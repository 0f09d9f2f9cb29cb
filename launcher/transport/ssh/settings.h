// What the ssh transports are told from outside besides the limits of a target (ConnectSettings):
// who logs in, and where keys are.
#pragma once

#include <cstdint>
#include <string>

#include "launcher/transport/ssh/host_key_store.h"
#include "scheduler/model/compute.h"

namespace muster {

struct SshSettings {
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
  std::string host_name{};  // by which ssh knows it; empty: the node's host
};

}  // namespace muster
