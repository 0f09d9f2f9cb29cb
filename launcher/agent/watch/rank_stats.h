// Single facts about a process or the node that change while it is at work, from /proc and /sys.
// Reads the system; any thread; keeps nothing. What cannot be read counts as nothing.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

namespace muster {

// The process and its descendants, as far as they were forked by main threads; at most `limit`.
std::vector<pid_t> process_tree(pid_t root, std::size_t limit);

// What went through its files, pipes and page faults since it was started.
std::uint64_t io_bytes(pid_t pid);

// What went through all network interfaces of the node, InfiniBand ports included. `root`: below it
// are /proc and /sys.
std::uint64_t network_bytes(const std::string& root = "");

}  // namespace muster
