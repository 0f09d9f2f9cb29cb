// The processes of hosts, found by the network they are in: right whatever became of files and of
// process numbers. As root.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launcher/agent/node/process_scan.h"
#include "scheduler/model/result.h"
#include "tools/sandbox/layout.h"

namespace muster {

// Every process in the network of one of these hosts.
std::vector<ProcessInfo> processes_of(const SandboxLayout& layout,
                                      const std::vector<std::string>& hosts);

// Kills them without notice and returns when they are gone. The Error names survivors.
Status kill_hosts(const SandboxLayout& layout, const std::vector<std::string>& hosts);

// Process 1 of a host as this machine counts, from the file that `up` and `boot` write: what may be
// read without being root. Nothing: the host is off.
std::optional<ProcessInfo> running_init(const SandboxLayout& layout, const std::string& host);
Status remember_init(const SandboxLayout& layout, const std::string& host, pid_t init);

}  // namespace muster
