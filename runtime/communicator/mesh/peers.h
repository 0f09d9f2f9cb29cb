// The connections of one rank to all others, made once the table of doors is known.
//
// The higher rank of a pair knocks, the lower one opens. Two ranks are on one node when the unix
// socket of one can be reached from the other and the memory that went through it is the same for
// both: containers or namespaces of one machine may not be. Such pairs share memory; others have a
// TCP connection for data. Every pair has one more connection for news, over which the death of a
// process shows at once, as its kernel closes it. Collective.
#pragma once

#include <memory>
#include <vector>

#include "runtime/communicator/mesh/peer_link.h"
#include "runtime/communicator/mesh/rendezvous.h"

namespace muster {

struct MeshOptions {
  std::chrono::milliseconds peer_timeout{0};  // 0: none
  bool shares_memory = true;  // with ranks of the same node; false: TCP, as between nodes
  bool reads_memory = true;   // of ranks of the same node, where the kernel allows it
};

struct MeshPeer {
  MeshPeer(std::uint64_t own_rank, std::uint64_t rank, MessageStream stream,
           std::unique_ptr<PeerLane> lane)
      : news(std::move(stream)), link(own_rank, rank, std::move(lane)) {}
  MessageStream news;
  PeerLink link;
  bool has_left = false;  // and said so
};

// By rank; nothing at this rank's own place. Throws MeetingFailed.
std::vector<std::unique_ptr<MeshPeer>> connect_peers(const MeshSeat& seat, const PeerSet& met,
                                                     const MeshOptions& options,
                                                     const Patience& patience);

}  // namespace muster
