// The agent's way to its controller: whatever connection is the present one, or none. A message
// that finds no connection is dropped; everything that matters is said again after the next
// Welcome.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "launcher/wire/agent_message.h"

namespace muster {

class PeerConnection;

class ControllerLine {
 public:
  // Above this many unwritten bytes nothing large is added, so that a Pong or an exit waits for no
  // more than four chunks of output.
  static constexpr std::size_t queue_limit_bytes = 4u << 20;

  bool is_open() const { return connection_ != nullptr; }
  bool has_room() const;
  void send(const FromAgent& message, std::string_view payload = {});
  void send_encoded(std::string frame);
  void attach(std::shared_ptr<PeerConnection> connection) {
    connection_ = std::move(connection);
    ++generation_;
  }
  std::shared_ptr<PeerConnection> detach() { return std::move(connection_); }
  // Tells one connection from the next: an answer that took a while may belong to an earlier one.
  std::uint64_t generation() const { return generation_; }

 private:
  std::shared_ptr<PeerConnection> connection_;
  std::uint64_t generation_ = 0;
};

}  // namespace muster
