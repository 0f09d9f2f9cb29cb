// The files by which a sandbox is reached: keys, the hosts' sshd configuration, and what ssh and
// muster need to know of the hosts. The texts are pure functions; the rest writes them.
#pragma once

#include <map>
#include <string>

#include "scheduler/model/result.h"
#include "tools/sandbox/layout.h"
#include "tools/sandbox/state.h"

namespace muster {

// The compute target that the cluster file describes.
inline constexpr const char* sandbox_target = "sandbox";

std::string sshd_config_text(const SandboxLayout& layout, const SandboxState& state,
                             const std::string& host);
std::string cluster_file_text(const SandboxLayout& layout, const SandboxState& state);
std::string ssh_config_text(const SandboxLayout& layout, const SandboxState& state);
std::string hosts_file_text(const SandboxState& state);
// `public_keys`: of each host, as its .pub file has it.
std::string known_hosts_text(const SandboxState& state,
                             const std::map<std::string, std::string>& public_keys);

// A folder for each host with its key, and a key for the client. An address keeps its key for as
// long as this machine lives: whoever remembers a host of an earlier sandbox finds the same one.
Status make_keys(const SandboxLayout& layout, const SandboxState& state);

// Everything above; after the keys. `owner` may read the client's key.
struct Owner {
  unsigned uid = 0;
  unsigned gid = 0;
};
Status write_access_files(const SandboxLayout& layout, const SandboxState& state, Owner owner);

}  // namespace muster
