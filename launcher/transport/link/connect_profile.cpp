#include "launcher/transport/link/connect_profile.h"

#include <algorithm>

namespace muster {
namespace {

void add(ConnectProfile& profile, std::string_view phase, std::int64_t us) {
  const auto same = [&](const PhaseTime& entry) { return entry.phase == phase; };
  const auto known = std::find_if(profile.begin(), profile.end(), same);
  if (known == profile.end()) {
    profile.push_back({std::string(phase), us});
  } else {
    known->us += us;
  }
}

}  // namespace

std::string describe(const ConnectProfile& profile) {
  std::string text;
  for (const auto& [phase, us] : profile) {
    if (!text.empty()) text += ", ";
    text += phase + " " + std::to_string(us / 1000) + " ms";
    if (phase == "shell" && std::chrono::microseconds(us) > slow_shell) {
      text += " (slow: a start file such as ~/.bashrc or ~/.profile holds up every login)";
    }
  }
  return text;
}

void PhaseTimer::finish(std::string_view phase) {
  const auto now = std::chrono::steady_clock::now();
  add(profile_, phase,
      std::chrono::duration_cast<std::chrono::microseconds>(now - since_).count());
  since_ = now;
}

void PhaseTimer::append(const ConnectProfile& earlier) {
  for (const auto& [phase, us] : earlier) add(profile_, phase, us);
}

}  // namespace muster
