// Power on one host: a process that enters the host's network, gets a mount table, a host name,
// processes, shared memory and a boot id of its own, and becomes the host's sshd, its process 1.
// The host is on as long as that process lives. Linux only, as root.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string>

#include "scheduler/model/result.h"
#include "tools/sandbox/layout.h"
#include "tools/sandbox/state.h"

namespace muster {

// What the new process needs, found out before it is made.
struct HostSetting {
  std::string name;
  Address address = 0;
  Address gateway = 0;
  std::filesystem::path folder;        // of the sandbox
  std::filesystem::path place;         // of the host, below it
  std::filesystem::path network;       // its network namespace
  std::filesystem::path home;          // shown …
  std::filesystem::path home_of_user;  // … here
  std::filesystem::path hosts_file;    // shown as /etc/hosts
  std::filesystem::path sshd;
  std::filesystem::path checkout;  // shown read-only where it lies below the host's own /tmp
};

// The process id of its process 1 as this machine counts. It is a child of nobody here; what it and
// sshd say goes to sshd.log, and sshd.pid appears below `place` when sshd listens.
Result<pid_t> start_host(const HostSetting& setting);

// The network devices of the namespace this process is in. System calls only: a host sets itself up
// without a program.

struct InterfaceAddress {
  Address address = 0;
  int prefix_bits = 0;
};

Status bring_up(const std::string& interface, const std::optional<InterfaceAddress>& address);
// Replaces one that is there.
Status add_default_route(Address gateway);
Result<bool> is_up(const std::string& interface);

// A disk of a chosen size, in memory, and filling it.

Status mount_sized(const std::filesystem::path& at, int size_mib);
// Without a word when nothing is mounted there.
void unmount(const std::filesystem::path& at);
bool is_mounted(const std::filesystem::path& at);

// A file that takes all the space there is.
Status fill_up(const std::filesystem::path& file);

}  // namespace muster
