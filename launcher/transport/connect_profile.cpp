#include "launcher/transport/connect_profile.h"

#include <algorithm>

namespace muster {
namespace {

void add(ConnectProfile& profile, std::string_view phase, Milliseconds duration) {
  const auto same = [&](const auto& entry) { return entry.first == phase; };
  const auto known = std::find_if(profile.begin(), profile.end(), same);
  if (known == profile.end()) {
    profile.emplace_back(phase, duration);
  } else {
    known->second += duration;
  }
}

}  // namespace

std::string describe(const ConnectProfile& profile) {
  std::string text;
  for (const auto& [phase, duration] : profile) {
    if (!text.empty()) text += ", ";
    text += phase + " " + std::to_string(duration.count()) + " ms";
    if (phase == "shell" && duration > slow_shell) {
      text += " (slow: a start file such as ~/.bashrc or ~/.profile holds up every login)";
    }
  }
  return text;
}

void PhaseTimer::finish(std::string_view phase) {
  const auto now = std::chrono::steady_clock::now();
  add(profile_, phase, std::chrono::duration_cast<Milliseconds>(now - since_));
  since_ = now;
}

void PhaseTimer::append(const ConnectProfile& earlier) {
  for (const auto& [phase, duration] : earlier) add(profile_, phase, duration);
}

}  // namespace muster
