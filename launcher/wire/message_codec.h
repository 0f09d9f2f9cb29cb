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

// Of each of the six that are encoded above.
template <class Message>
Result<Received<Message>> decode(Frame frame);

}  // namespace muster
