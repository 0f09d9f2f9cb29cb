// Connecting to the Unix socket that an agent of this machine listens on.
#pragma once

#include <string>
#include <variant>

#include "launcher/os/fd.h"
#include "scheduler/model/result.h"

namespace muster {

struct NobodyListens {};

// `<run_folder>/agent.sock`, whatever the length of the path; a socket of another user is an error.
std::variant<Fd, NobodyListens, Error> connect_agent_socket(const std::string& run_folder);

}  // namespace muster
