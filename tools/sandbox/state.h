// What a sandbox is made of, as its file says it: `sandbox.json` in its folder, version 1.
//
//   {"version": 1, "user": "sandbox", "private_home": false, "subnet": "10.64.0.0",
//    "is_up": true, "hosts": ["h01", "h02"], "gpus": 2}
//
// The host with index i has the subnet's address i. `is_up` is false while it is being built.
// Without `gpus` the hosts have those of this machine.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "launcher/os/fd.h"
#include "scheduler/model/result.h"
#include "tools/sandbox/layout.h"
#include "tools/sandbox/subnet.h"

namespace muster {

struct SandboxState {
  std::string user;
  bool private_home = false;
  Subnet subnet{0};
  bool is_up = false;
  std::vector<std::string> hosts;
  std::optional<int> gpus{};  // simulated, of each host

  // Nothing: there is no such host.
  std::optional<Address> address_of(const std::string& host) const;
};

std::string encode_state(const SandboxState& state);
Result<SandboxState> decode_state(const std::string& text);

// Nothing: the folder holds no sandbox.
Result<std::optional<SandboxState>> read_state(const SandboxLayout& layout);
Status write_state(const SandboxLayout& layout, const SandboxState& state);

// One at a time: whoever holds the lock of a file or folder. Released when the owner goes, however
// it ends, and with it the programs that it started meanwhile: they inherit the lock, so that the
// useradd of a killed command cannot work on behind the back of the next one. Waits for it; a path
// that does not exist is made a file.
Result<Fd> take_lock(const std::filesystem::path& path);

}  // namespace muster
