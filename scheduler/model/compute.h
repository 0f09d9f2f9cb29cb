// Compute targets: named sets of nodes, and how a node is reached. Made by templates/ from a
// cluster file (or built in: `local`, `local-cluster`), journaled with the job that uses them.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "scheduler/model/clock.h"
#include "scheduler/model/ids.h"

namespace muster {

enum class TransportKind { local, ssh, openssh };

struct NodeAddress {
  NodeId id;
  TransportKind transport = TransportKind::local;
  std::string host;           // name or address to connect to (ssh)
  int port = 22;
  std::string user;           // empty: the submitting user
  std::string identity_file;  // empty: the ssh agent, then the usual key files
  std::string job_address;    // address other nodes use; empty: the address ssh connected to

  template <class Self, class Visit>
  static void fields(Self& self, Visit visit) {
    visit("id", self.id);
    visit("transport", self.transport);
    visit("host", self.host);
    visit("port", self.port);
    visit("user", self.user);
    visit("identity_file", self.identity_file);
    visit("job_address", self.job_address);
  }
};

struct ComputeTarget {
  std::string name;
  std::vector<NodeAddress> nodes;  // in order of preference
  Milliseconds lease{60000};       // silence after which an agent kills its ranks
  Milliseconds unreachable{30000};  // silence after which a fixed-size attempt is stopped
  std::string shared_root;         // directory all nodes see under one path; empty: none
  std::string remote_home;         // muster's directory on a node; empty: ~/.muster
  int port_min = 20000;            // MASTER_PORT range, below Linux's ephemeral ports
  int port_max = 29999;

  template <class Self, class Visit>
  static void fields(Self& self, Visit visit) {
    visit("name", self.name);
    visit("nodes", self.nodes);
    visit("lease", self.lease);
    visit("unreachable", self.unreachable);
    visit("shared_root", self.shared_root);
    visit("remote_home", self.remote_home);
    visit("port_min", self.port_min);
    visit("port_max", self.port_max);
  }
};

}  // namespace muster
