#include "health/learn/profile.h"

#include <algorithm>
#include <cmath>

#include "health/model/profile_floor.h"

namespace muster {

namespace {

// Jobs that need more ask for it themselves.
constexpr std::int64_t nofile_enough = 65536;

// What a driver says of itself is not always text.
bool is_plain_text(const std::string& text) {
  return std::ranges::all_of(text, [](char c) { return c >= ' ' && c <= '~'; });
}

// As a pattern that only the name itself fits: a set of one character each for `*` and `[`.
std::string literal_pattern(const std::string& name) {
  std::string pattern;
  for (const char c : name) {
    if (c == '*' || c == '[') {
      pattern += std::string("[") + c + "]";
    } else {
      pattern += c;
    }
  }
  return pattern;
}

// The rate that most ports have, the higher one of two; a node may have slower ones for storage.
std::optional<int> usual_rate(const std::vector<LearnedPort>& ports) {
  std::map<int, int> ports_at;
  for (const LearnedPort& port : ports) {
    if (port.is_infiniband && port.rate_gbps) ++ports_at[*port.rate_gbps];
  }
  std::optional<int> best;
  for (const auto& [rate, count] : ports_at) {
    if (!best || count >= ports_at[*best]) best = rate;
  }
  return best;
}

void learn_ports(const LearnedFacts& facts, HealthProfile& profile) {
  profile.ib.rate_gbps = usual_rate(facts.ports);
  std::optional<std::string> width;
  bool is_one_width = true;
  for (const LearnedPort& port : facts.ports) {
    if (!is_plain_text(port.device) || port.device.empty()) continue;
    const std::string name = literal_pattern(port.device);
    if (!port.is_infiniband) {
      profile.exclude.push_back({"ib.*", name, "not InfiniBand"});
    } else if (port.rate_gbps != profile.ib.rate_gbps) {
      profile.exclude.push_back({"ib.*", name, "another rate"});
    } else {
      profile.ib.ports.push_back(name);
      is_one_width = is_one_width && (!width || width == port.width);
      width = port.width;
    }
  }
  if (is_one_width) profile.ib.width = width;
}

// Towards the worse, with three digits: more would pretend an accuracy that one node cannot give.
double with_margin(double measured, bool is_ceiling) {
  const double margin = learned_margin_pct / 100;
  const double bound = measured * (is_ceiling ? 1 + margin : 1 - margin);
  const int places = 2 - static_cast<int>(std::floor(std::log10(bound)));
  const double unit = std::pow(10.0, std::abs(places));
  const double scaled = places > 0 ? bound * unit : bound / unit;
  const double steps = is_ceiling ? std::ceil(scaled) : std::floor(scaled);
  return places > 0 ? steps / unit : steps * unit;
}

void learn_floors(const LearnedFacts& facts, HealthProfile& profile) {
  for (const auto& [name, measured] : facts.measured) {
    const PerformanceMetric* metric = find_performance_metric(name);
    const bool is_floor = metric != nullptr && !metric->counts_faults;
    if (!is_floor || !(measured >= profile_floor_min && measured <= profile_floor_max)) continue;
    profile.floors[name] = with_margin(measured, metric->is_ceiling);
  }
}

void learn_host(const LearnedFacts& facts, HostProfile& host) {
  host.mem_kb = facts.mem_kb;
  host.swap_kb = facts.swap_kb;
  if (facts.nofile) host.nofile = std::min(*facts.nofile, nofile_enough);
  host.cpus = facts.cpus;
  host.numa_nodes = facts.numa_nodes;
  host.nvmes = facts.nvmes;
  host.shm_kb = facts.shm_kb;
  std::ranges::copy_if(facts.mounts, std::back_inserter(host.mounts), is_plain_text);
}

// Without an answer to these nothing else that the profile says of the devices means much.
void learn_required(HealthProfile& profile) {
  if (profile.gpu.count.value_or(0) > 0) profile.required.emplace_back("gpu.count");
  if (profile.gpu.nvlinks.value_or(0) > 0) profile.required.emplace_back("gpu.nvlink_active");
  if (!profile.ib.ports.empty()) profile.required.emplace_back("ib.state");
}

}  // namespace

HealthProfile learn_profile(const LearnedFacts& facts) {
  HealthProfile profile;
  profile.name = facts.profile_name;
  if (facts.gpu_name && is_plain_text(*facts.gpu_name)) {
    profile.match_gpu_name = literal_pattern(*facts.gpu_name);
    profile.match_gpu_count = facts.gpu_count;
  }
  profile.gpu = {facts.gpu_count, facts.nvlinks,    facts.nvlink_mb_per_s,
                 facts.pcie_gen,  facts.pcie_width, facts.ecc,
                 facts.mig,       facts.persistence};
  learn_ports(facts, profile);
  learn_host(facts, profile.host);
  learn_floors(facts, profile);
  learn_required(profile);
  return profile;
}

}  // namespace muster
