// The network of a sandbox: a bridge with this machine on it, and for every host a network
// namespace of its own with one cable to the bridge. Uses `ip` of iproute2.
#pragma once

#include <string>
#include <vector>

#include "scheduler/model/result.h"
#include "tools/sandbox/layout.h"
#include "tools/sandbox/state.h"

namespace muster {

// The lines for `ip -batch` that make all of it. Pure.
std::string network_batch(const SandboxLayout& layout, const SandboxState& state);
Status make_network(const SandboxLayout& layout, const SandboxState& state);

bool has_bridge(const SandboxLayout& layout);

// Of the hosts whose network namespaces exist, whatever the files say.
std::vector<std::string> hosts_with_network(const SandboxLayout& layout);

// Everything that belongs to it; without a word when there is nothing.
void remove_network(const SandboxLayout& layout);

Status set_cable(const SandboxLayout& layout, const std::string& host, bool plugged);
bool is_plugged(const SandboxLayout& layout, const std::string& host);

}  // namespace muster
