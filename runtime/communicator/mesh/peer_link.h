// The frames between this rank and one other: what is to go, what is expected, and how far it is.
//
// Frames go and come in the order in which they were given. Each that comes is checked against what
// this rank expects there, so that ranks which do not take the same steps say so instead of mixing
// up their data. Nothing here waits.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <variant>

#include "runtime/communicator/mesh/peer_lane.h"
#include "runtime/communicator/mesh/wire.h"

namespace muster {

// The ranks are not in the same operation.
struct RanksDiverged : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Where a frame's bytes go: memory of the length they must have, or a text of any length.
using Inbox = std::variant<std::span<char>, std::string*>;

class PeerLink {
 public:
  PeerLink(std::uint64_t own_rank, std::uint64_t other_rank, std::unique_ptr<PeerLane> lane)
      : own_rank_(own_rank), other_rank_(other_rank), lane_(std::move(lane)) {}

  // `payload` stays as it is until sent() has reached this frame.
  void send(FrameHeader header, std::span<const char> payload);
  void expect(const FrameHeader& header, const Inbox& inbox);

  // Moves what can be moved now; whether anything did. Throws LaneEnded, RanksDiverged.
  bool move();

  // Frames, counted from the first: so many have been sent and need their payload no more, so many
  // have come.
  std::uint64_t sent();
  std::uint64_t received() const { return received_; }

  const PeerLane& lane() const { return *lane_; }

 private:
  struct Outgoing {
    std::string head;  // the header, and a payload so small that it is copied
    std::span<const char> payload;
    bool is_offer = false;  // the payload is fetched by its address
    std::size_t at = 0;     // bytes of head and payload that went
  };
  struct Expected {
    FrameHeader header;
    Inbox inbox;
  };

  bool push();
  bool pull();
  bool read_header();
  void open_inbox();
  void finish_frame();

  std::uint64_t own_rank_;
  std::uint64_t other_rank_;
  std::unique_ptr<PeerLane> lane_;

  std::deque<Outgoing> outgoing_;
  std::deque<std::uint64_t> offers_;  // frames whose payload the other rank has not fetched yet
  std::uint64_t written_ = 0;
  std::uint64_t fetched_ = 0;  // offers that the other rank is known to have fetched

  std::deque<Expected> expected_;
  std::array<char, sizeof(FrameHeader)> header_bytes_{};
  std::size_t header_at_ = 0;
  std::span<char> destination_;  // of the frame under way
  std::size_t destination_at_ = 0;
  bool inbox_is_open_ = false;
  std::uint64_t received_ = 0;
};

}  // namespace muster
