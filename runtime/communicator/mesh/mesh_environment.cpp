#include "runtime/communicator/mesh/mesh_environment.h"

#include <algorithm>

#include "runtime/protocol/start_error.h"

namespace muster {
namespace {

// Nodes copy code and data before their ranks start, each at its own pace.
constexpr std::chrono::seconds meeting_limit = std::chrono::minutes(10);

}  // namespace

std::optional<MeshStart> mesh_start(const RankVariables& variables,
                                    std::chrono::seconds peer_timeout) {
  if (variables.world_size.value_or(1) <= 1) return std::nullopt;
  const std::string size = std::to_string(*variables.world_size);
  if (!variables.rank || variables.master_address.empty() || !variables.master_port) {
    throw StartError("WORLD_SIZE says " + size +
                     " ranks, but RANK, MASTER_ADDR and MASTER_PORT are not all set: let muster "
                     "start them (distribution type pytorch), or mpirun");
  }
  if (*variables.rank >= *variables.world_size) {
    throw StartError("RANK: expected less than WORLD_SIZE, which is " + size + ", got " +
                     std::to_string(*variables.rank));
  }
  if (*variables.master_port == 0 || *variables.master_port > 65535) {
    throw StartError("MASTER_PORT: expected 1 to 65535, got " +
                     std::to_string(*variables.master_port));
  }
  MeshStart start;
  start.seat = {variables.job, variables.epoch.value_or(0), *variables.rank, *variables.world_size};
  start.place.host = variables.master_address;
  start.place.port = static_cast<std::uint16_t>(*variables.master_port);
  start.place.secret = variables.rendezvous_secret;
  start.place.limit =
      peer_timeout.count() == 0 ? meeting_limit : std::min(peer_timeout, meeting_limit);
  return start;
}

}  // namespace muster
