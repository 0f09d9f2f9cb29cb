// The communicator of muster's own: shared memory inside a node, TCP between nodes.
//
// Ranks are started by anybody, with MASTER_ADDR, MASTER_PORT, RANK and WORLD_SIZE. When one of
// them dies, every operation of every other one throws PeerLost, now and from then on; so does one
// in which nothing moves for the peer timeout. A communicator that has thrown is of no more use.
// One thread; waiting spins shortly and then sleeps between looks, since ranks may share cores.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "runtime/communicator/communicator.h"
#include "runtime/communicator/mesh/peer_link.h"
#include "runtime/communicator/mesh/rendezvous.h"
#include "runtime/protocol/environment.h"

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

// The connections of one rank to all others, made once the table of doors is known.
//
// The higher rank of a pair knocks, the lower one opens. Two ranks are on one node when the unix
// socket of one can be reached from the other and the memory that went through it is the same for
// both: containers or namespaces of one machine may not be. Such pairs share memory; others have a
// TCP connection for data. Every pair has one more connection for news, over which the death of a
// process shows at once, as its kernel closes it. By rank; nothing at this rank's own place.
// Collective. Throws MeetingFailed.
std::vector<std::unique_ptr<MeshPeer>> connect_peers(const MeshSeat& seat, const PeerSet& met,
                                                     const MeshOptions& options,
                                                     const Patience& patience);

// A rank that is needed is not there any more, or does not answer.
struct PeerLost : std::runtime_error {
  PeerLost(std::uint64_t lost, const std::string& reason)
      : std::runtime_error("rank " + std::to_string(lost) + " is lost: " + reason),
        rank(lost),
        why(reason) {}
  std::uint64_t rank;
  std::string why;
};

// Meets the others and connects to them. Throws StartError, which is a MeetingFailed when somebody
// was missing.
std::unique_ptr<Communicator> make_mesh_communicator(const MeshSeat& seat,
                                                     const MeetingPlace& place,
                                                     const MeshOptions& options);

// What the environment says about ranks that mpirun did not start. Pure.
struct MeshStart {
  MeshSeat seat;
  MeetingPlace place;
};

// Nothing when this process is the only rank (WORLD_SIZE is 1, or not set). Throws StartError when
// it is one of several and does not know its place. Ranks wait for each other as long as for an
// answer later, but not longer than it takes to start the largest run.
std::optional<MeshStart> mesh_start(const RankVariables& variables,
                                    std::chrono::seconds peer_timeout);

}  // namespace muster
