#include "launcher/agent/exec/ending_sessions.h"

#include <algorithm>

#include "launcher/agent/node/process_scan.h"

namespace muster {
namespace {

// Of those that are waited for no longer.
constexpr std::chrono::seconds hung_look_pause{5};

}  // namespace

void EndingSessions::add(pid_t session) {
  until_.try_emplace(session, boot_time() + limit_);
}

bool EndingSessions::are_gone() {
  if (until_.empty()) return true;
  const BootTime now = boot_time();
  const auto is_waited_for = [now](const auto& item) { return now < item.second; };
  if (std::ranges::none_of(until_, is_waited_for) && now < look_at_) return true;
  look_at_ = now + hung_look_pause;
  alive_.clear();
  for (const ProcessInfo& one : scan_processes()) {
    if (!one.is_dead() && until_.contains(one.session)) alive_.emplace(one.session, describe(one));
  }
  std::erase_if(until_, [&](const auto& item) { return !alive_.contains(item.first); });
  return std::ranges::none_of(until_, is_waited_for);
}

std::string EndingSessions::hung() const {
  const BootTime now = boot_time();
  for (const auto& [session, until] : until_) {
    const auto known = alive_.find(session);
    if (now < until || known == alive_.end()) continue;
    return "process " + known->second + " of what was measured before does not end";
  }
  return {};
}

}  // namespace muster
