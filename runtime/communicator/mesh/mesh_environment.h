// What the environment says about ranks that mpirun did not start. Pure.
#pragma once

#include <chrono>
#include <optional>

#include "runtime/communicator/mesh/rendezvous.h"
#include "runtime/protocol/environment.h"

namespace muster {

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
