// Compute targets: named sets of nodes, and how a node is reached. Made by templates/ from a
// cluster file (or built in: `local`, `local-cluster`), journaled with the job that uses them.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "scheduler/model/health_profile.h"
#include "scheduler/model/ids.h"
#include "scheduler/text/clock.h"
#include "scheduler/text/fields.h"

namespace muster {

enum class TransportKind { local, ssh, openssh };

struct NodeAddress {
  NodeId id;
  TransportKind transport = TransportKind::local;
  std::string host;  // name or address to connect to (ssh)
  int port = 22;
  std::string user;           // empty: the submitting user
  std::string identity_file;  // empty: the ssh agent, then the usual key files
  std::string job_address;    // address other nodes use; empty: the address ssh connected to

  bool operator==(const NodeAddress&) const = default;
  MUSTER_FIELDS(id, transport, host, port, user, identity_file, job_address)
};

// Limits on reaching the nodes of a target. Each is a key of `connect` in the cluster file.
struct ConnectSettings {
  static constexpr int most_nodes = 1'000'000;

  // One thread completes several hundred handshakes a second; 64 at once keep it busy over 80 ms of
  // round trip and still let each finish well within login_timeout.
  int handshakes = 64;
  // sshd's default MaxStartups 10:30:100 drops at random from the eleventh on, and we are not the
  // only ones who log in.
  int unauthenticated_per_host = 8;
  // Connections dropped during the handshake are tried again this often, 0.1 s to 3 s apart.
  int retries = 6;
  Milliseconds resolve_timeout{30000};  // two name servers that are silent, twice
  Milliseconds tcp_timeout{10000};      // three lost SYNs
  Milliseconds login_timeout{45000};    // below sshd's LoginGraceTime, above a slow DNS
  Milliseconds silence{15000};          // unanswered TCP probes for this long: the link is lost
  // Hosts with a key that nobody has on record are not connected to; otherwise the first key of a
  // host is recorded, and told.
  bool refuses_unknown_hosts = false;
  // With more nodes than this, those that need no login lead to further ones. A flat connection
  // costs 1.3 ms: no target gets a tree that does not ask for one.
  int fan_out_above = most_nodes;
  // Nodes under one agent: two levels hold 272 nodes, three 4368; the loss of one moves few.
  int fan_out_radix = 16;
  // A healthy start takes well below a second. Who has waited so long for a parent goes any other
  // way; parents that are slower (a heavy ~/.bashrc, a full disk) are not worth waiting for.
  Milliseconds fan_out_patience{5000};
  // What keeps nodes from each other (a firewall, a full disk) is mended by people, not by itself:
  // a node that could not reach another gets none for so long.
  Milliseconds fan_out_set_aside{600'000};
  // A relay that stands still is found out before the agents behind it count as silent (after
  // 10 s): they would be reached through it again.
  Milliseconds fan_out_silence{8000};

  MUSTER_FIELDS(handshakes, unauthenticated_per_host, retries, resolve_timeout, tcp_timeout,
                login_timeout, silence, refuses_unknown_hosts, fan_out_above, fan_out_radix,
                fan_out_patience, fan_out_set_aside, fan_out_silence)
};

// The site's commands, split into words, with placeholders in their arguments (remediation.h).
// None: a person does it.
struct RemedyCommands {
  std::vector<std::string> reset;             // run on the node, for the device or all of it
  std::vector<std::string> reboot;            // run on the node
  std::vector<std::string> reboot_from_here;  // run on the controller's host

  bool none() const { return reset.empty() && reboot.empty() && reboot_from_here.empty(); }

  MUSTER_FIELDS(reset, reboot, reboot_from_here)
};

// The lease of a target that does not set one. A controller with so short a round trip to the node
// is on its network, and hardly a laptop, whose sleep of 50 s must not end its jobs.
inline constexpr Milliseconds near_lease{20'000};
inline constexpr Milliseconds far_lease{60'000};
inline constexpr std::chrono::microseconds near_round_trip{2'000};

// What may be set. A shorter lease ends jobs for a pause of the controller's disk; after a longer
// one a lost node holds its job up for more than an hour.
inline constexpr Milliseconds shortest_lease{3'000};
inline constexpr Milliseconds longest_lease{3'600'000};

struct ComputeTarget {
  std::string name;
  std::vector<NodeAddress> nodes;  // in order of preference
  // Silence after which an agent kills its ranks. Nothing: near_lease or far_lease, as measured.
  std::optional<Milliseconds> lease{};
  // Silence after which a fixed-size attempt is stopped, if the lease is not over sooner.
  Milliseconds unreachable{30000};
  std::string shared_root;  // directory all nodes see under one path; empty: none
  std::string remote_home;  // muster's directory on a node; empty: ~/.muster
  int port_min = 20000;     // MASTER_PORT range, below Linux's ephemeral ports
  int port_max = 29999;
  ConnectSettings connect;
  std::string notice_file;  // on each node: while it exists the node is about to be taken away
  // What a healthy node looks like; absent: only what no profile is needed for is judged.
  std::optional<HealthProfile> health;
  RemedyCommands remedies{};  // what muster does itself for nodes that need it

  MUSTER_FIELDS(name, nodes, lease, unreachable, shared_root, remote_home, port_min, port_max,
                connect, notice_file, health, remedies)
};

// Every node is on this machine.
inline bool is_this_host(const ComputeTarget& target) {
  return std::ranges::all_of(
      target.nodes, [](const NodeAddress& node) { return node.transport == TransportKind::local; });
}

// Of a job, where all its nodes see it; empty: they see none.
inline std::string shared_directory(const ComputeTarget& target, const JobId& job) {
  return target.shared_root.empty() ? "" : target.shared_root + "/.muster/" + job.value;
}

}  // namespace muster
