// A sandbox: a cluster of simulated hosts on this machine, for trying muster and for its tests.
// Every host is a set of namespaces (network, mounts, host name, processes, shared memory) with an
// sshd of its own on port 22, a /tmp of its own (a checkout of muster below this machine's /tmp is
// shown in it, read-only), and the file system of this machine otherwise.
//
//   up ──► on ──crash──► off ──boot──► on ──partition──► cut off ──heal──► on ──► down
//
// Blocking calls of one thread; they take the sandbox's lock, so that several commands may run at
// once. Root is needed for all but `sandbox_hosts`. `sandbox_down` takes away whatever is left of a
// sandbox: half-built, crashed, from before a reboot.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "scheduler/model/result.h"
#include "tools/sandbox/access_files.h"
#include "tools/sandbox/layout.h"
#include "tools/sandbox/run_command.h"

namespace muster {

struct SandboxRequest {
  int hosts = 2;
  std::string user = "sandbox";
  bool private_home = false;    // otherwise one home directory is seen by all hosts
  std::optional<int> home_mib;  // each host's own home, in memory, has this size and no more
  std::optional<int> gpus;      // simulated, of each host; absent: the hosts have this machine's
  Owner owner;                  // who may use the client's key
};

// Asked between steps: true ends the work.
using Interrupted = std::function<bool()>;

// Where a sandbox lies when nobody says: one for each user of this machine.
std::filesystem::path default_sandbox(unsigned uid);

// The source tree that this program was built in, else the program's folder: where its sisters lie.
std::filesystem::path own_checkout();

Status sandbox_up(const SandboxLayout& layout, const SandboxRequest& request,
                  const Interrupted& interrupted);
Status sandbox_down(const SandboxLayout& layout);

enum class HostLink { on, cut_off, off };
const char* word(HostLink link);

struct SandboxHost {
  std::string name;
  std::string address;
  HostLink link = HostLink::off;
  std::optional<int> pid;     // its process 1 as this machine counts
  std::optional<int> gpus{};  // simulated
};
Result<std::vector<SandboxHost>> sandbox_hosts(const SandboxLayout& layout);

// Disconnects and reconnects its network; nothing on the host ends.
Status partition_host(const SandboxLayout& layout, const std::string& host);
Status heal_host(const SandboxLayout& layout, const std::string& host);

// Without notice: not even a packet leaves the host. `boot_host` gives it another boot id.
Status crash_host(const SandboxLayout& layout, const std::string& host);
Status boot_host(const SandboxLayout& layout, const std::string& host);

// Not a byte more fits into the home of a host that has a size of its own, until `empty_disk`.
Status fill_disk(const SandboxLayout& layout, const std::string& host);
Status empty_disk(const SandboxLayout& layout, const std::string& host);

// `command` as root inside the host: a command of this machine.
Result<Command> inside_host(const SandboxLayout& layout, const std::string& host,
                            const Command& command);

}  // namespace muster
