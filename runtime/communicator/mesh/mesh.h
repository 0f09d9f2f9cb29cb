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

#include "runtime/communicator/communicator.h"
#include "runtime/communicator/mesh/peers.h"
#include "runtime/communicator/mesh/rendezvous.h"
#include "runtime/protocol/environment.h"

namespace muster {

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
