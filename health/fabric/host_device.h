// Which host and which of its devices a node description means.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace muster {

struct HostDevice {
  std::string host;    // "n17"
  std::string device;  // "mlx5_3"
  // The number in the device's name: hosts of one kind have it for cables of the same rail.
  std::optional<int> rail;
  friend bool operator==(const HostDevice&, const HostDevice&) = default;
};

// "n17 mlx5_3", as rdma-ndd writes it, and the older "n17 HCA-4", which counts from 1. Nothing for
// the description that an adapter leaves the factory with, for switches and aggregation nodes.
std::optional<HostDevice> host_device_of(std::string_view description);

}  // namespace muster
