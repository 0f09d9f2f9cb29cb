// One ticket at the relay, once its node is reached: carries bytes between a RemoteProcess and the
// controller, in each direction no more than the other side has said to have room for. What the
// node says beyond that stays with the node; what the controller says has room here. One thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "launcher/transport/link/attach_failure.h"
#include "launcher/transport/link/remote_process.h"
#include "launcher/wire/relay_message.h"

namespace muster {

using SendToController = std::function<void(const FromRelay&, std::string_view payload)>;

class RelayCarriage {
 public:
  // `on_end` is called from inside a callback of the process: once, and nothing is sent after it.
  RelayCarriage(std::int64_t ticket, std::unique_ptr<RemoteProcess> process,
                const std::string& first_bytes, SendToController send,
                std::function<void(const std::string& why)> on_end);

  void write(std::string bytes);      // from the controller
  void more_room(std::int64_t bytes);  // at the controller

 private:
  void take(std::string_view bytes);
  void send_held();
  void drained();
  void ended(const RemoteExit& exit);

  std::int64_t ticket_;
  SendToController send_;
  std::function<void(const std::string&)> on_end_;
  std::int64_t room_ = relay_window_bytes;
  std::string held_;            // said by the node, no room for it at the controller
  std::int64_t undrained_ = 0;  // from the controller, its room not given back yet
  Tail errors_{4096};
  std::unique_ptr<RemoteProcess> process_;
};

}  // namespace muster
