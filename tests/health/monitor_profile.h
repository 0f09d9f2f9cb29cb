// The profiles of the fake nodes, as configs/health has them for such machines.
#pragma once

#include "health/model/profile.h"
#include "tests/health/fake_node.h"

namespace muster {

inline HealthProfile monitor_profile(FakeKind kind = FakeKind::h100) {
  const bool is_h100 = kind == FakeKind::h100;
  HealthProfile profile;
  profile.name = is_h100 ? "ND96isr_H100_v5" : "ND96asr_v4";
  if (is_h100) {
    profile.gpu = {8, 18, 26562, 5, 16, true, false, true};
  } else {
    profile.gpu = {8, 12, std::nullopt, 4, 16, true, false, true};
  }
  profile.ib.ports = {"mlx5_ib[0-7]:1"};
  profile.ib.rate_gbps = is_h100 ? 400 : 200;
  profile.ib.width = "4X";
  profile.host.mem_kb = is_h100 ? 1961032704 : 928858388;
  profile.host.cpus = 96;
  profile.host.swap_kb = 0;
  profile.host.nofile = 65536;
  if (is_h100) profile.host.nvmes = 8;
  profile.required = {"gpu.count", "gpu.nvlink_active", "ib.state"};
  return profile;
}

}  // namespace muster
