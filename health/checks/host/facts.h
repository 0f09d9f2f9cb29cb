// Reads what the start gate judges. Touches the system, may block on a slow file system: called in
// a child process that can be killed.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "health/checks/start_gate.h"

namespace muster {

// Everything but the programs, which depend on the PATH of the job.
StartGateFacts read_start_gate_facts(const std::string& home);

std::string read_host_name();
std::string read_boot_id();

// `key` of /proc/meminfo's text, in bytes.
std::optional<std::int64_t> parse_meminfo(std::string_view text, std::string_view key);
std::optional<std::int64_t> read_memory(std::string_view key);

}  // namespace muster
