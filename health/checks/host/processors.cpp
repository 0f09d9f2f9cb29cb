#include "health/checks/host/processors.h"

#include <charconv>
#include <map>
#include <string>

#include "health/model/judged_check.h"
#include "health/read/probe_calls.h"

namespace muster {

namespace {

constexpr std::string_view policies = "/sys/devices/system/cpu/cpufreq";
constexpr std::string_view no_turbo = "/sys/devices/system/cpu/intel_pstate/no_turbo";
constexpr std::string_view boost = "/sys/devices/system/cpu/cpufreq/boost";
constexpr std::string_view balancing = "/proc/sys/kernel/numa_balancing";

constexpr std::int64_t nofile_usual = 65'536;
// More than any kernel is built for: a longer range is no list of processors.
constexpr int list_number_max = 1 << 20;

std::optional<int> list_number(std::string_view text) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool is_whole = error == std::errc() && end == text.data() + text.size();
  return is_whole && number >= 0 && number < list_number_max ? std::optional(number) : std::nullopt;
}

std::optional<int> range_size(std::string_view range) {
  const std::size_t dash = range.find('-');
  const auto first = list_number(range.substr(0, dash));
  const auto last = dash == range.npos ? first : list_number(range.substr(dash + 1));
  if (!first || !last || *last < *first) return std::nullopt;
  return *last - *first + 1;
}

void judge_count(JudgedCheck& judged, const SourceFiles& files, std::string_view path, int wanted,
                 const std::string& what) {
  const auto text = files.text(path);
  const auto found = text ? count_in_list(*text) : std::nullopt;
  if (!found) return judged.unreadable(path, files.reading(path));
  judged.require(*found == wanted, std::to_string(*found) + " " + what,
                 std::to_string(wanted) + " " + what);
}

void judge_governors(JudgedCheck& judged, const SourceFiles& files, const std::string& wanted) {
  std::map<std::string, int> governors;
  for (const std::string& name : files.names_below(policies)) {
    const std::string path = std::string(policies) + "/" + name + "/scaling_governor";
    if (!name.starts_with("policy")) continue;
    const auto governor = files.text(path);
    if (!governor || governor->empty()) {
      judged.unreadable(path, files.reading(path));
    } else {
      ++governors[std::string(*governor)];
    }
  }
  if (governors.empty()) return judged.unreadable(policies, files.reading(policies));
  for (const auto& [governor, count] : governors) {
    const bool is_all = governors.size() == 1;
    judged.require(governor == wanted,
                   "governor " + governor + (is_all ? "" : " x " + std::to_string(count)),
                   "governor " + wanted);
  }
}

// Intel's driver says whether turbo is off, the others whether it is on.
std::optional<bool> turbo_of(const SourceFiles& files) {
  const auto off = files.number(no_turbo);
  if (off == 0 || off == 1) return *off == 0;
  const auto on = files.number(boost);
  if (on == 0 || on == 1) return *on == 1;
  return std::nullopt;
}

std::string on_off(bool is_on) {
  return is_on ? "on" : "off";
}

void judge_turbo(JudgedCheck& judged, const SourceFiles& files, bool wanted) {
  const auto turbo = turbo_of(files);
  if (!turbo) return judged.unreadable(no_turbo, files.reading(no_turbo));
  judged.require(*turbo == wanted, "turbo " + on_off(*turbo), "turbo " + on_off(wanted));
}

void judge_balancing(JudgedCheck& judged, const SourceFiles& files, bool wanted) {
  const auto number = files.number(balancing);
  if (!number || *number < 0) return judged.unreadable(balancing, files.reading(balancing));
  judged.require((*number != 0) == wanted, "balancing " + on_off(*number != 0),
                 "balancing " + on_off(wanted));
}

// The soft limit is what a rank starts with.
void judge_limit(JudgedCheck& judged, const SourceFiles& files, const std::string& name,
                 std::optional<std::int64_t> least) {
  const std::string path = "rlimit:" + name;
  const FileReading& reading = files.reading(path);
  const auto soft = reading.ok() ? probe_value(reading.text, "soft") : std::nullopt;
  const bool is_unlimited = soft == "unlimited";
  const auto number = reading.ok() ? probe_number(reading.text, "soft") : std::nullopt;
  if (!is_unlimited && !number) return judged.unreadable(path, reading);
  judged.require(is_unlimited || (least && *number >= *least), name + " " + std::string(*soft),
                 name + (least ? " >= " + std::to_string(*least) : " unlimited"));
}

}  // namespace

std::optional<int> count_in_list(std::string_view list) {
  int count = 0;
  while (true) {
    const std::string_view range = list.substr(0, list.find(','));
    const auto size = range_size(range);
    if (!size || count > list_number_max) return std::nullopt;
    count += *size;
    if (range.size() == list.size()) return count;
    list.remove_prefix(range.size() + 1);
  }
}

std::optional<HealthFinding> judge_processors(const SourceFiles& files,
                                              const HealthProfile& profile) {
  JudgedCheck judged("host.cpu");
  const HostProfile& host = profile.host;
  if (host.cpus)
    judge_count(judged, files, "/sys/devices/system/cpu/online", *host.cpus, "processors");
  if (host.governor) judge_governors(judged, files, *host.governor);
  if (host.turbo) judge_turbo(judged, files, *host.turbo);
  return judged.finding();
}

std::optional<HealthFinding> judge_numa(const SourceFiles& files, const HealthProfile& profile) {
  JudgedCheck judged("host.numa");
  const HostProfile& host = profile.host;
  if (host.numa_nodes)
    judge_count(judged, files, "/sys/devices/system/node/online", *host.numa_nodes, "nodes");
  if (host.numa_balancing) judge_balancing(judged, files, *host.numa_balancing);
  return judged.finding();
}

std::optional<HealthFinding> judge_limits(const SourceFiles& files, const HealthProfile& profile) {
  if (!profile.host.nofile && profile.ib.ports.empty()) return std::nullopt;
  JudgedCheck judged("host.rlimit");
  judge_limit(judged, files, "memlock", std::nullopt);
  judge_limit(judged, files, "nofile", profile.host.nofile.value_or(nofile_usual));
  return judged.finding();
}

}  // namespace muster
