#include "tools/sandbox/network.h"

#include <net/if.h>

#include <algorithm>
#include <memory>

#include "tools/sandbox/namespaces.h"
#include "tools/sandbox/run_command.h"

namespace muster {

namespace {

// The bridge, and cables whose hosts are gone in a way that left them.
std::vector<std::string> devices_of(const SandboxLayout& layout) {
  std::vector<std::string> devices;
  const std::unique_ptr<struct if_nameindex, void (*)(struct if_nameindex*)> all(
      ::if_nameindex(), ::if_freenameindex);
  for (const auto* at = all.get(); at != nullptr && at->if_index != 0; ++at) {
    const std::string name = at->if_name;
    if (name.starts_with(layout.prefix())) devices.push_back(name);
  }
  return devices;
}

}  // namespace

std::string network_batch(const SandboxLayout& layout, const SandboxState& state) {
  const std::string& bridge = layout.bridge();
  std::string batch = "link add " + bridge + " type bridge\n" +  //
                      "addr add " + address_text(state.subnet.gateway()) + "/" +
                      std::to_string(Subnet::prefix_bits) + " dev " + bridge + "\n" +  //
                      "link set " + bridge + " up\n";
  for (const std::string& host : state.hosts) {
    const std::string network = layout.network_name(host);
    const std::string cable = layout.cable(host);
    batch += "netns add " + network + "\n";
    batch += "link add " + cable + " type veth peer name eth0 netns " + network + "\n";
    batch += "link set " + cable + " master " + bridge + " up\n";
  }
  return batch;
}

Status make_network(const SandboxLayout& layout, const SandboxState& state) {
  const auto made = run_command({"ip", "-batch", "-"}, network_batch(layout, state));
  if (made) return Done{};
  return Error{"cannot make the network: " + made.error().message};
}

bool has_bridge(const SandboxLayout& layout) {
  return ::if_nametoindex(layout.bridge().c_str()) != 0;
}

std::vector<std::string> hosts_with_network(const SandboxLayout& layout) {
  const std::string start = layout.prefix() + "-";
  std::vector<std::string> hosts;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("/run/netns", ignored)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with(start)) hosts.push_back(name.substr(start.size()));
  }
  std::sort(hosts.begin(), hosts.end());
  return hosts;
}

void remove_network(const SandboxLayout& layout) {
  std::string batch;
  for (const std::string& host : hosts_with_network(layout)) {
    batch += "netns delete " + layout.network_name(host) + "\n";
  }
  // -force: one that fails must not save the others. Afterwards nothing is there or it is told by
  // the next `up`, which cannot make it again.
  if (!batch.empty()) (void)run_command({"ip", "-force", "-batch", "-"}, batch);
  batch.clear();
  for (const std::string& device : devices_of(layout)) batch += "link delete " + device + "\n";
  if (!batch.empty()) (void)run_command({"ip", "-force", "-batch", "-"}, batch);
}

Status set_cable(const SandboxLayout& layout, const std::string& host, bool plugged) {
  const auto done = run_command({"ip", "link", "set", layout.cable(host), plugged ? "up" : "down"});
  if (done) return Done{};
  return done.error();
}

bool is_plugged(const SandboxLayout& layout, const std::string& host) {
  const auto up = is_up(layout.cable(host));
  return up && *up;
}

}  // namespace muster
