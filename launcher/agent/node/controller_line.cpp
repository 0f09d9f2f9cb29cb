#include "launcher/agent/node/controller_line.h"

#include "launcher/agent/node/peer.h"
#include "launcher/wire/message_codec.h"

namespace muster {

bool ControllerLine::has_room() const {
  return connection_ && connection_->queued_bytes() < queue_limit_bytes;
}

void ControllerLine::send(const FromAgent& message, std::string_view payload) {
  if (connection_) connection_->write(encode(message, payload));
}

void ControllerLine::send_encoded(std::string frame) {
  if (connection_) connection_->write(std::move(frame));
}

}  // namespace muster
