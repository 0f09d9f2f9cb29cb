// The names of one sandbox: its files below a folder, and its devices and network namespaces, which
// follow from the folder alone, so that a sandbox can be taken down when every file of it is gone.
// Pure.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace muster {

// Files of all sandboxes of this machine; survives a reboot, as accounts do.
inline constexpr const char* sandbox_root = "/var/lib/muster-sandbox";

class SandboxLayout {
 public:
  explicit SandboxLayout(std::filesystem::path folder);

  const std::filesystem::path& folder() const { return folder_; }
  std::filesystem::path host(const std::string& name) const { return folder_ / name; }
  // The home directory of the account on this host; one for all of them unless they are private.
  std::filesystem::path home(const std::string& name, bool is_private) const;

  // Where the host's agent looks for GPUs, when they are simulated.
  std::filesystem::path system_root(const std::string& name) const;

  std::filesystem::path state() const { return folder_ / "sandbox.json"; }
  std::filesystem::path cluster_file() const { return folder_ / "cluster.yml"; }
  std::filesystem::path client_key() const { return folder_ / "client_key"; }
  std::filesystem::path authorized_keys() const { return folder_ / "authorized_keys"; }
  std::filesystem::path known_hosts() const { return folder_ / "known_hosts"; }
  std::filesystem::path ssh_config() const { return folder_ / "ssh_config"; }
  std::filesystem::path hosts_file() const { return folder_ / "hosts"; }
  std::filesystem::path shared() const { return folder_ / "shared"; }

  // What every device and namespace of this sandbox is called at the front: `ms` and eight digits.
  const std::string& prefix() const { return prefix_; }
  const std::string& bridge() const { return prefix_; }
  // Where network namespaces have names, as `ip netns` has it.
  std::filesystem::path network(const std::string& name) const;
  std::string network_name(const std::string& name) const { return prefix_ + "-" + name; }
  // The cable's end at the bridge.
  std::string cable(const std::string& name) const;
  // A number that differs between sandboxes of one machine, mostly.
  unsigned tag() const { return tag_; }

 private:
  std::filesystem::path folder_;
  unsigned tag_;
  std::string prefix_;
};

// A device's name has at most 15 characters: 10 of the prefix and the host's number.
inline constexpr int max_sandbox_hosts = 1000;

// h01, h02, …; as many digits as the last one needs, two at least.
std::vector<std::string> sandbox_host_names(int count);

}  // namespace muster
