// Health profiles as files: what a healthy node of one kind looks like. Same rules and findings as
// job files. A site's file goes over the shipped profile of its name, key by key, lists as a whole;
// a key without a value takes out what the shipped one says.
//
//   profile: h100-8x-ndr
//   match: {gpu_name: "NVIDIA H100 80GB HBM3", gpu_count: 8}       # `*` and [a-b] in the name;
//                                              # vendor, product: as the host's firmware says
//   gpu: {count: 8, nvlinks: 18, nvlink_mb_per_s: 26562, pcie_gen: 5, ecc: true, mig: false}
//   ib: {ports: ["mlx5_[0-7]:1"], rate_gbps: 400, width: 4X}
//   host: {mem_kb: 1961032704, mem_tolerance_pct: 5, swap_kb: 0, nofile: 65536}
//   floors: {h2d_gb_per_s: 48, allreduce8_gb_per_s: 460}           # performance.h has the names
//   required: [gpu.count, ib.state]                                # unknown counts as a failure
//   checks:
//     ib.symbol: {mode: enforce, drain_per_h: 120, window_s: 30}   # limits end in their unit
//     gpu.nvlink_*: {mode: observe, samples: 3}                    # off, observe, enforce
//   exclude: [{check: "ib.*", device: mlx5_an0, why: management}]
//   breaker: {min_nodes: 2, fleet_pct: 5, window_s: 600}
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "health/model/profile.h"
#include "scheduler/model/result.h"
#include "templates/yaml/finding.h"

namespace muster {

class Value;

// Whose hosts it is for, besides GPUs, as their firmware says. Patterns; empty: anybody's.
struct HostMatch {
  std::string vendor;   // "Microsoft*"
  std::string product;  // "*DGX*H100*"
};

struct HealthProfileFile {
  HealthProfile profile;  // meaningful without errors
  HostMatch match;        // of a shipped one; no part of what is judged
  std::vector<Finding> findings;
};

// `checks`: the ids that a profile may name (names_of_checks); with none of them any may be named.
HealthProfileFile read_health_profile(const std::string& path, std::string_view text,
                                      const std::vector<std::string>& checks);

// `text` goes over `base`, both being files.
HealthProfileFile read_health_profile_over(std::string_view base, const std::string& path,
                                           std::string_view text,
                                           const std::vector<std::string>& checks);

// A map inside another file. `base` may be empty.
HealthProfile read_health_profile_over(std::string_view base, const Value& value,
                                       const std::vector<std::string>& checks);

// Reads back as the same profile. What is left out or usual is not written.
std::string write_health_profile(const HealthProfile& profile);

// ---- the profiles that come with the program, one for each size of machine that can be rented,
// named as it is: configs/health/*.yml, compiled in

struct ShippedProfile {
  std::string_view name;  // "ND96isr_H100_v5"
  std::string_view text;  // the file
};

// For hosts of any maker, as far as it knows any.
bool is_for_all_makers(const ShippedProfile& profile);

// In the order of their names. The source is generated (embed_profiles.cmake).
const std::vector<ShippedProfile>& shipped_profiles();

// With or without "Standard_"; letter case does not matter. Nothing when there is none.
const ShippedProfile* find_shipped_profile(std::string_view name);

// What is known of a node nobody has named a profile for.
struct NodeKind {
  std::string sku{};  // may be empty
  std::string gpu_name{};
  int gpu_count = 0;
  // Ports of InfiniBand that count: "mlx5_ib0:1". Nothing: not read.
  std::optional<std::vector<std::string>> ports{};
  // Of the host, as its firmware says; empty: not known.
  std::string vendor{};
  std::string product{};
};

// By the SKU, else by the GPUs and whatever tells the maker of the host: a size or model of one
// maker only where the firmware or the names of the ports say so, a profile for all makers
// otherwise. The Error says which ones fit when several do.
Result<const ShippedProfile*> choose_shipped_profile(const NodeKind& node);
// The profile that the node had before, when nothing but a part that is gone speaks against it.
const ShippedProfile* still_fitting_profile(const std::string& before, const NodeKind& node);

// A value in another file: the name of a shipped profile, or a map that goes over the shipped one
// of its `profile`.
HealthProfile read_profile_value(const Value& value, const std::vector<std::string>& checks);

// A site's file, over the shipped profile of the name it gives where there is one.
HealthProfileFile read_site_profile(const std::string& path, std::string_view text,
                                    const std::vector<std::string>& checks);

}  // namespace muster
