#include "health/checks/infiniband/known_devices.h"

#include <algorithm>
#include <set>

#include "health/checks/infiniband/port.h"
#include "health/checks/infiniband/sources.h"

namespace muster {

namespace {

// "mlx5_3"; empty: the file belongs to no device.
std::string_view device_of(std::string_view path) {
  const std::string_view root = infiniband_root;
  if (path.size() <= root.size() + 1 || !path.starts_with(root) || path[root.size()] != '/')
    return {};
  path.remove_prefix(root.size() + 1);
  return path.substr(0, path.find('/'));
}

bool tells_devices(std::string_view path) {
  return std::ranges::any_of(infiniband_device_sources(),
                             [&](std::string_view source) { return covers(source, path); });
}

}  // namespace

void KnownDevices::remember(const SourceFiles& files) {
  forget();
  for (const auto& [path, reading] : files.all()) {
    if (!tells_devices(path) || reading.is_missing) continue;
    if (!reading.ok()) return forget();
    files_.add(path, reading);
  }
  if (find_ports(files_).empty()) forget();  // one that comes would not be seen
}

bool KnownDevices::has(std::string_view device) const {
  return !files_.names_below(infiniband_device_path(device, "ports")).empty();
}

std::vector<std::string> KnownDevices::link_sources() const {
  constexpr std::string_view any_port = "/ports/*/";
  std::set<std::string> numbers;
  for (const InfinibandPort& port : find_ports(files_)) numbers.insert(port.number);
  std::vector<std::string> sources;
  for (const std::string_view source : infiniband_link_sources()) {
    const std::size_t at = source.find(any_port);
    for (const std::string& number : numbers) {
      sources.push_back(std::string(source.substr(0, at)) + "/ports/" + number + "/" +
                        std::string(source.substr(at + any_port.size())));
    }
  }
  return sources;
}

SourceFiles KnownDevices::with_links(const SourceFiles& links) {
  SourceFiles files;
  bool is_any_new = false;
  for (const auto& [path, reading] : links.all()) {
    const std::string_view device = device_of(path);
    if (device.empty() || has(device)) {
      // Of ports that another device has.
      if (device.empty() || !reading.is_missing) files.add(path, reading);
    } else {
      is_any_new = true;
    }
  }
  const std::vector<std::string> present = links.names_below(infiniband_root);
  for (const auto& [path, reading] : files_.all()) {
    const std::string_view device = device_of(path);
    const bool is_kept = device.empty() || std::ranges::find(present, device) != present.end();
    if (is_kept && !files.all().contains(path)) files.add(path, reading);
  }
  if (is_any_new) forget();
  return files;
}

}  // namespace muster
