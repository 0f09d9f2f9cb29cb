#include "health/monitor/check_groups.h"

#include <algorithm>
#include <array>

#include "health/checks/gpu/sources.h"
#include "health/checks/host/host_checks.h"
#include "health/checks/host/processes.h"
#include "health/checks/infiniband/sources.h"
#include "scheduler/text/pattern.h"

namespace muster {

namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

struct Period {
  SourceGroup group;
  milliseconds busy;
  milliseconds idle;
};
// A port that goes down is seen within 5 s: the helper's wait for an event, a second, and the read
// take their part of them. Limits of counters are by the half minute and the minute.
constexpr std::array periods{
    Period{SourceGroup::infiniband_state, milliseconds(3'800), seconds(20)},
    Period{SourceGroup::infiniband_counters, seconds(30), seconds(60)},
    // Less than a minute: a verdict must not be older when a job comes.
    Period{SourceGroup::gpu, seconds(60), seconds(50)},
    Period{SourceGroup::host, seconds(60), seconds(50)},
    // 5 to 20 ms a look, and a stuck process is still there later.
    Period{SourceGroup::processes, seconds(120), seconds(120)}};

template <class Sources>
void add_new(std::vector<std::string>& all, const Sources& sources, const char* probe = "") {
  for (const auto& one : sources) {
    const std::string source = probe + std::string(one);
    if (std::ranges::find(all, source) == all.end()) all.push_back(source);
  }
}

// A pattern of ports is one of their devices too. An empty device is all of them.
bool names_port(const HealthProfile& profile, std::string_view device) {
  return std::ranges::any_of(profile.ib.ports, [&](std::string_view pattern) {
    const bool are_ports = pattern.find(':') != pattern.npos && device.find(':') != device.npos;
    const auto part = [&](std::string_view of) {
      return are_ports ? of : of.substr(0, of.find(':'));
    };
    return device.empty() || fits_pattern(part(pattern), part(device));
  });
}

}  // namespace

milliseconds period_of(SourceGroup group, bool is_idle) {
  const auto found = std::ranges::find(periods, group, &Period::group);
  return is_idle ? found->idle : found->busy;
}

SourceGroups group_of(std::string_view check) {
  const CheckSpec* spec = find_check(check);
  return spec == nullptr ? SourceGroups{0} : static_cast<SourceGroups>(spec->group);
}

bool runs_in(const CheckSpec& check, Phase phase) {
  return phase == Phase::on_demand || phase == Phase::qualification || has(check.phases, phase);
}

bool has_checks(const HealthProfile& profile, SourceGroup group, Phase phase) {
  return std::ranges::any_of(every_check(), [&](const CheckSpec* check) {
    return check->group == group && runs_in(*check, phase) &&
           setting_of(profile, check->id).mode != CheckMode::off;
  });
}

bool reads_all(Phase phase) {
  return phase == Phase::prolog || phase == Phase::on_demand || phase == Phase::qualification;
}

std::vector<std::string> sources_of(const HealthProfile& profile, SourceGroups groups,
                                    Phase phase) {
  std::vector<std::string> sources;
  const bool has_states = has(groups, SourceGroup::infiniband_state);
  if (has_states) add_new(sources, infiniband_state_sources());
  if (has(groups, SourceGroup::infiniband_counters)) add_new(sources, infiniband_counter_sources());
  if (has_states && reads_all(phase)) add_new(sources, infiniband_other_sources());
  if (has(groups, SourceGroup::gpu)) add_new(sources, gpu_sources());
  if (has(groups, SourceGroup::processes)) add_new(sources, process_sources());
  if (has_states && reads_all(phase)) add_new(sources, infiniband_device_nodes(), "open:");
  if (has(groups, SourceGroup::gpu) && reads_all(phase))
    add_new(sources, gpu_device_nodes(profile));
  for (const CheckSpec* check : every_check()) {
    const bool is_wanted = check->group != SourceGroup::host && has(groups, check->group);
    if (is_wanted && runs_in(*check, phase)) add_new(sources, check->reads);
  }
  if (has(groups, SourceGroup::host)) add_new(sources, host_sources(profile));
  return sources;
}

bool is_asked_for(const HealthProfile& profile, const HealthFinding& fault) {
  const CheckSpec* check = find_check(fault.check);
  if (check == nullptr) return true;
  const bool is_event = check->believe == Persistence::event;  // it happened, whatever is looked at
  const bool is_of_port = !is_event && (check->group == SourceGroup::infiniband_state ||
                                        check->group == SourceGroup::infiniband_counters);
  const bool has_ports = !profile.ib.ports.empty();
  if (is_of_port && has_ports && !names_port(profile, fault.device)) return false;
  if (is_required(profile, fault.check)) return true;
  if (check->is_asked && !check->is_asked(profile, fault)) return false;
  if (!is_event && check->group == SourceGroup::gpu) return profile.gpu.count != 0;
  return !is_of_port || has_ports;
}

}  // namespace muster
