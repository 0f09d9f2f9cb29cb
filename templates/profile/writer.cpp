#include <charconv>

#include "scheduler/model/names.h"
#include "templates/profile/reader.h"
#include "templates/yaml/node.h"
#include "templates/yaml/writer.h"

namespace muster {
namespace {

YamlNode node_of(const std::string& text) {
  return scalar_node(text, {}, true);
}
YamlNode node_of(bool value) {
  return scalar_node(value ? "true" : "false", {}, false);
}
YamlNode node_of(int value) {
  return scalar_node(std::to_string(value), {}, false);
}
YamlNode node_of(std::int64_t value) {
  return scalar_node(std::to_string(value), {}, false);
}
// The shortest text that reads as the same number.
YamlNode node_of(double value) {
  char text[400];
  const auto [end, error] =
      std::to_chars(text, text + sizeof text, value, std::chars_format::fixed);
  return scalar_node(error == std::errc() ? std::string(text, end) : "0", {}, false);
}
YamlNode node_of(const std::vector<std::string>& texts) {
  YamlNode node;
  node.kind = YamlNode::Kind::list;
  for (const std::string& text : texts) node.items.push_back(node_of(text));
  return node;
}
YamlNode node_of(CheckMode mode) {
  return node_of(std::string(word(mode)));
}

// A map that leaves out what is not there.
class MapBuilder {
 public:
  MapBuilder() { node_.kind = YamlNode::Kind::map; }

  template <class T>
  void add(const std::string& key, const T& value) {
    node_.entries.push_back(Entry{key, {}, node_of(value)});
  }
  template <class T>
  void add(const std::string& key, const std::optional<T>& value) {
    if (value) add(key, *value);
  }
  template <class T>
  void add_unless(const T& usual, const std::string& key, const T& value) {
    if (!(value == usual)) add(key, value);
  }
  void add_node(const std::string& key, YamlNode node) {
    if (!node.entries.empty() || !node.items.empty()) {
      node_.entries.push_back(Entry{key, {}, std::move(node)});
    }
  }
  YamlNode take() { return std::move(node_); }

 private:
  YamlNode node_;
};

YamlNode match_node(const HealthProfile& profile) {
  MapBuilder map;
  map.add_unless(std::string(), "gpu_name", profile.match_gpu_name);
  map.add("gpu_count", profile.match_gpu_count);
  return map.take();
}

YamlNode gpu_node(const GpuProfile& gpu) {
  MapBuilder map;
  map.add("count", gpu.count);
  map.add("nvlinks", gpu.nvlinks);
  map.add("nvlink_mb_per_s", gpu.nvlink_mb_per_s);
  map.add("pcie_gen", gpu.pcie_gen);
  map.add("pcie_width", gpu.pcie_width);
  map.add("ecc", gpu.ecc);
  map.add("mig", gpu.mig);
  map.add("persistence", gpu.persistence);
  return map.take();
}

YamlNode infiniband_node(const InfinibandProfile& ib) {
  MapBuilder map;
  map.add_node("ports", node_of(ib.ports));
  map.add("rate_gbps", ib.rate_gbps);
  map.add("width", ib.width);
  return map.take();
}

YamlNode host_node(const HostProfile& host) {
  const HostProfile usual;
  MapBuilder map;
  map.add("mem_kb", host.mem_kb);
  map.add_unless(usual.mem_tolerance_pct, "mem_tolerance_pct", host.mem_tolerance_pct);
  map.add("swap_kb", host.swap_kb);
  map.add("nofile", host.nofile);
  map.add("cpus", host.cpus);
  map.add("numa_nodes", host.numa_nodes);
  map.add("nvmes", host.nvmes);
  map.add("shm_kb", host.shm_kb);
  map.add("hugepages", host.hugepages);
  map.add("transparent_hugepages", host.transparent_hugepages);
  map.add("governor", host.governor);
  map.add("turbo", host.turbo);
  map.add("numa_balancing", host.numa_balancing);
  map.add_node("mounts", node_of(host.mounts));
  map.add_unless(usual.disks, "disks", host.disks);
  map.add_unless(usual.free_pct, "free_pct", host.free_pct);
  map.add_unless(usual.free_mb, "free_mb", host.free_mb);
  map.add_node("services", node_of(host.services));
  return map.take();
}

YamlNode numbers_node(const std::map<std::string, double>& numbers) {
  MapBuilder map;
  for (const auto& [name, number] : numbers) map.add(name, number);
  return map.take();
}

// A check without a setting of its own stays: it hides a pattern's.
YamlNode checks_node(const std::map<std::string, CheckSetting>& checks) {
  YamlNode all;
  all.kind = YamlNode::Kind::map;
  for (const auto& [check, setting] : checks) {
    MapBuilder map;
    map.add("mode", setting.mode);
    map.add("samples", setting.samples);
    for (const auto& [name, limit] : setting.limits) map.add(name, limit);
    all.entries.push_back(Entry{check, {}, map.take()});
  }
  return all;
}

YamlNode exclude_node(const std::vector<CheckExclusion>& exclude) {
  YamlNode list;
  list.kind = YamlNode::Kind::list;
  for (const CheckExclusion& one : exclude) {
    MapBuilder map;
    map.add("check", one.check);
    map.add_unless(std::string(), "device", one.device);
    map.add_unless(std::string(), "why", one.why);
    list.items.push_back(map.take());
  }
  return list;
}

YamlNode breaker_node(const BreakerProfile& breaker) {
  const BreakerProfile usual;
  MapBuilder map;
  map.add_unless(usual.min_nodes, "min_nodes", breaker.min_nodes);
  map.add_unless(usual.fleet_pct, "fleet_pct", breaker.fleet_pct);
  map.add_unless(usual.window_s, "window_s", breaker.window_s);
  return map.take();
}

}  // namespace

std::string write_health_profile(const HealthProfile& profile) {
  MapBuilder map;
  map.add("profile", profile.name);
  map.add_node("match", match_node(profile));
  map.add_node("gpu", gpu_node(profile.gpu));
  map.add_node("ib", infiniband_node(profile.ib));
  map.add_node("host", host_node(profile.host));
  map.add_node("floors", numbers_node(profile.floors));
  map.add_node("required", node_of(profile.required));
  map.add_node("checks", checks_node(profile.checks));
  map.add_node("exclude", exclude_node(profile.exclude));
  map.add_node("breaker", breaker_node(profile.breaker));
  return write_yaml(map.take());
}

}  // namespace muster
