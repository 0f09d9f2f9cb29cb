// The door of muster.remote_start on a node: what its ranks find (`ssh`, `pdsh`, a host file), and
// how a command is written on its way from node 0 to another. Pure except for prepare_door.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "launcher/agent/keeper/layout.h"
#include "launcher/agent/keeper/rank_environment.h"
#include "launcher/wire/agent_message.h"
#include "scheduler/model/result.h"

namespace muster {

// Links to `program` in door_directory, and hostfile_path.
Status prepare_door(const AttemptLayout& layout, const RemoteDoor& door,
                    const std::string& program);

// "HOST slots=N" for each node.
std::string hostfile_text(const RemoteDoor& door);

// The place of the node with this name or address.
std::optional<std::size_t> place_in(const RemoteDoor& door, const std::string& host);

// The number that ends a ticket: 1 or more.
std::optional<std::int64_t> ticket_number(const std::string& ticket);

// Each node has its own copy of the code, and a launcher's `cd` names that of node 0.
std::string with_code_marked(std::string command, const std::string& code);
std::string with_code_at(std::string command, const std::string& code);

// `command` for a shell of this node.
Result<std::vector<std::string>> shell_words(const std::string& command,
                                             const Environment& environment);

}  // namespace muster
