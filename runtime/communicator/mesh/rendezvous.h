// How ranks that were started without mpirun find each other.
//
//   every rank   opens its own door: a TCP port, and a unix socket for ranks of its node
//   rank 0       listens at MASTER_ADDR:MASTER_PORT until all others have said hello
//   the others   connect there, in any order, again and again until rank 0 is up or time is over
//   rank 0       sends all of them the table of doors, and stops listening
//
// Both sides first prove that they have the secret of their attempt (introduction.h). Where a
// stranger holds the port, rank 0 takes another one that follows from the secret, and is looked for
// there. Of those who have proven themselves, a rank of another job, epoch or world is refused with
// a sentence. When one that has said hello leaves again, or some never come, all that are there are
// told so. Collective.
#pragma once

#include <chrono>
#include <string>

#include "runtime/communicator/mesh/introduction.h"
#include "runtime/communicator/mesh/socket.h"
#include "runtime/communicator/mesh/wire.h"
#include "runtime/protocol/start_error.h"

namespace muster {

struct MeetingPlace {
  std::string host;  // of rank 0
  std::uint16_t port = 0;
  std::chrono::milliseconds limit{0};  // for all to come; 0: none
  std::function<bool()> is_over = {};  // whether nobody need meet here any more
  std::string secret = {};  // of the attempt; empty: whoever reaches the port is believed
};

// Where rank 0 is to be found: at its port, or, where it has a secret and a stranger has its port,
// at the first of a few others that is free.
std::vector<std::uint16_t> meeting_ports(const MeetingPlace& place);

// A start that failed because somebody was missing; another one may go well. Others are StartErrors
// of no such hope.
struct MeetingFailed : StartError {
  using StartError::StartError;
};

// A rank's own door, open from before it is announced.
struct OwnListener {
  Descriptor tcp;
  Descriptor unix_socket;
  RankListener door;  // without an address
};
OwnListener open_listener(int family);

struct PeerSet {
  std::string secret;
  OwnListener own;
  MeshTable table;
  std::string rank_0_address;  // as this rank reached it; empty on rank 0
};
PeerSet meet(const MeshSeat& seat, const MeetingPlace& place, const Patience& patience);

}  // namespace muster
