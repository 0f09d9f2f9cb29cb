// The health profiles that come with the program, one for each size of machine that can be rented,
// named as it is: configs/health/*.yml, compiled in.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "scheduler/model/result.h"
#include "templates/profile/reader.h"

namespace muster {

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
