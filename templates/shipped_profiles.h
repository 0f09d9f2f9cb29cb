// The health profiles that come with the program, one for each size of machine that can be rented,
// named as it is: configs/health/*.yml, compiled in.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "scheduler/model/result.h"
#include "templates/health_profile.h"

namespace muster {

struct ShippedProfile {
  std::string_view name;  // "ND96isr_H100_v5"
  std::string_view text;  // the file
};

// In the order of their names. The source is generated (embed_profiles.cmake).
const std::vector<ShippedProfile>& shipped_profiles();

// With or without "Standard_"; letter case does not matter. Nothing when there is none.
const ShippedProfile* find_shipped_profile(std::string_view name);

// What is known of a node nobody has named a profile for.
struct NodeKind {
  std::string sku;  // may be empty
  std::string gpu_name;
  int gpu_count = 0;
  std::optional<int> infiniband_ports;  // tells sizes with the same GPUs apart
};

// By the SKU, else by the GPUs. The Error says which ones fit when several do.
Result<const ShippedProfile*> choose_shipped_profile(const NodeKind& node);

// A value in another file: the name of a shipped profile, or a map that goes over the shipped one
// of its `profile`.
HealthProfile read_profile_value(const Value& value, const std::vector<std::string>& checks);

// A site's file, over the shipped profile of the name it gives where there is one.
HealthProfileFile read_site_profile(const std::string& path, std::string_view text,
                                    const std::vector<std::string>& checks);

}  // namespace muster
