// A blocking connection to the controller of a state directory, for one request. The socket must
// belong to this user (or root): the peer's credentials are checked before a byte is sent.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "launcher/controller/store/home.h"
#include "launcher/os/fd.h"
#include "launcher/wire/client_message.h"
#include "launcher/wire/message_codec.h"
#include "scheduler/model/result.h"
#include "scheduler/text/clock.h"

namespace muster {

class ControllerClient {
 public:
  // Nothing: no controller listens here. An Error: something does, but it must not be spoken to.
  static Result<std::optional<ControllerClient>> connect(const Home& home);

  Status send(const ToController& message, std::string_view payload = {});
  // The next message; nothing when `timeout` passes first. An Error: the controller went away.
  Result<std::optional<Received<FromController>>> receive(Milliseconds timeout);
  // To wait for it beside other things. After it is readable call `receive` until it gives nothing.
  int descriptor() const { return fd_.get(); }

 private:
  explicit ControllerClient(Fd fd) : fd_(std::move(fd)) {}

  Fd fd_;
  FrameReader reader_;
};

// One question, one answer, within `timeout`.
Result<FromController> ask(ControllerClient& client, const ToController& question,
                           Milliseconds timeout);

}  // namespace muster
