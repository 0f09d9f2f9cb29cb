// Messages to frames and back. Decoding never throws and never trusts: a malformed header is an
// Error, unknown fields are ignored, absent ones keep their defaults. A client's request with an
// unknown field is refused: the job that it describes would not be the one that runs.
#pragma once

#include <string>
#include <string_view>

#include "launcher/wire/agent_message.h"
#include "launcher/wire/client_message.h"
#include "launcher/wire/frame.h"
#include "launcher/wire/relay_message.h"
#include "scheduler/model/result.h"

namespace muster {

std::string encode(const ToAgent& message, std::string_view payload = {});
std::string encode(const FromAgent& message, std::string_view payload = {});
std::string encode(const ToController& message, std::string_view payload = {});
std::string encode(const FromController& message, std::string_view payload = {});
std::string encode(const ToRelay& message, std::string_view payload = {});
std::string encode(const FromRelay& message, std::string_view payload = {});

template <class Message>
struct Received {
  Message message;
  std::string payload;
};

Result<Received<ToAgent>> decode_to_agent(Frame frame);
Result<Received<FromAgent>> decode_from_agent(Frame frame);
Result<Received<ToController>> decode_to_controller(Frame frame);
Result<Received<FromController>> decode_from_controller(Frame frame);
Result<Received<ToRelay>> decode_to_relay(Frame frame);
Result<Received<FromRelay>> decode_from_relay(Frame frame);

}  // namespace muster
