#include <algorithm>
#include <map>
#include <string>

#include "health/checks/host/host_checks.h"
#include "health/model/baseline.h"
#include "health/model/check_words.h"
#include "health/model/judged_check.h"
#include "health/read/files.h"
#include "scheduler/text/text.h"

namespace muster {

namespace {

constexpr std::string_view online_cpus = "/sys/devices/system/cpu/online";
constexpr std::string_view online_nodes = "/sys/devices/system/node/online";
constexpr std::string_view nofile_probe = "rlimit:nofile";
constexpr std::string_view memlock_probe = "rlimit:memlock";
constexpr std::string_view policies = "/sys/devices/system/cpu/cpufreq";
constexpr std::string_view no_turbo = "/sys/devices/system/cpu/intel_pstate/no_turbo";
constexpr std::string_view boost = "/sys/devices/system/cpu/cpufreq/boost";
constexpr std::string_view balancing = "/proc/sys/kernel/numa_balancing";

constexpr std::int64_t nofile_usual = 65'536;
// More than any kernel is built for: a longer range is no list of processors.
constexpr int list_number_max = 1 << 20;

std::optional<int> list_number(std::string_view text) {
  const auto number = whole_number<int>(text);
  return number && *number >= 0 && *number < list_number_max ? number : std::nullopt;
}

std::optional<int> range_size(std::string_view range) {
  const std::size_t dash = range.find('-');
  const auto first = list_number(range.substr(0, dash));
  const auto last = dash == range.npos ? first : list_number(range.substr(dash + 1));
  if (!first || !last || *last < *first) return std::nullopt;
  return *last - *first + 1;
}

// How many a kernel's list ("0-3,8,10-11") at the path holds; nothing when it is none.
std::optional<int> listed(const SourceFiles& files, std::string_view path) {
  std::string_view list = files.text(path).value_or("");
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

void judge_count(JudgedCheck& judged, const SourceFiles& files, std::string_view path, int wanted,
                 const std::string& what) {
  const auto found = listed(files, path);
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
  const auto soft = value_in_lines(reading.text, "soft", ' ');
  const bool is_unlimited = soft == "unlimited";
  const auto number = probe_number(reading.text, "soft");
  if (!is_unlimited && !number) return judged.unreadable(path, reading);
  judged.require(is_unlimited || (least && *number >= *least), name + " " + std::string(*soft),
                 name + (least ? " >= " + std::to_string(*least) : " unlimited"));
}

void judge_processors(JudgedCheck& judged, const CheckInput& input) {
  const HostProfile& host = input.profile.host;
  if (host.cpus) judge_count(judged, input.files, online_cpus, *host.cpus, "processors");
  if (host.governor) judge_governors(judged, input.files, *host.governor);
  if (host.turbo) judge_turbo(judged, input.files, *host.turbo);
}

void learn_processors(BaselineNode& node) {
  node.profile.host.cpus = node.read("host.cpus", online_cpus, listed(node.files, online_cpus));
}

void judge_numa(JudgedCheck& judged, const CheckInput& input) {
  const HostProfile& host = input.profile.host;
  if (host.numa_nodes) judge_count(judged, input.files, online_nodes, *host.numa_nodes, "nodes");
  if (host.numa_balancing) judge_balancing(judged, input.files, *host.numa_balancing);
}

void learn_numa(BaselineNode& node) {
  node.profile.host.numa_nodes =
      node.read("host.numa_nodes", online_nodes, listed(node.files, online_nodes));
}

// Of the process that starts ranks. Judged where the profile says how many files, or has ports,
// which need locked memory.
bool limits_files_or_has_ports(const HealthProfile& profile) {
  return profile.host.nofile || !profile.ib.ports.empty();
}

void judge_limits(JudgedCheck& judged, const CheckInput& input) {
  if (!limits_files_or_has_ports(input.profile)) return;
  judge_limit(judged, input.files, "memlock", std::nullopt);
  judge_limit(judged, input.files, "nofile", input.profile.host.nofile.value_or(nofile_usual));
}

// Jobs that need more files ask for them themselves. A node that limits locked memory would fail.
void learn_limits(BaselineNode& node) {
  const auto memlock = value_in_lines(node.files.reading(memlock_probe).text, "soft", ' ');
  if (memlock != "unlimited") {
    const std::string why = "this node's memlock is " + std::string(memlock.value_or("not known"));
    node.profile.exclude.push_back({"host.rlimit", "", why});
    return node.leave_out("host.rlimit", why);
  }
  const std::string& said = node.files.reading(nofile_probe).text;
  std::optional<std::int64_t> files = probe_number(said, "soft");
  if (value_in_lines(said, "soft", ' ') == "unlimited") files = nofile_usual;
  node.profile.host.nofile = node.read("host.nofile", nofile_probe, files);
  if (files) node.profile.host.nofile = std::min(*files, nofile_usual);
}

}  // namespace

std::span<const CheckSpec> processor_checks() {
  using namespace check_words;
  // clang-format off
  static const CheckSpec all[] = {
    {.id = "host.rlimit", .source = "getrlimit", .says = "locked memory unlimited, 65536 files",
     .severity = drain, .fault = setup, .phases = when("P"), .group = host,
     .reads = {nofile_probe, memlock_probe},
     .is_asked = [](const HealthProfile& profile, const HealthFinding&) {
       return limits_files_or_has_ports(profile);
     },
     .judge = in_one_finding<judge_limits>, .learn = learn_limits},
    {.id = "host.cpu", .source = "/sys/devices/system/cpu", .says = "as the profile says",
     .severity = drain, .fault = setup, .phases = when("P"), .cost = 2ms,
     .group = host,
     .reads = {online_cpus, no_turbo, boost,
               "/sys/devices/system/cpu/cpufreq/policy*/scaling_governor"},
     .is_asked = is_set<&HealthProfile::host, &HostProfile::cpus, &HostProfile::governor,
                        &HostProfile::turbo>,
     .judge = in_one_finding<judge_processors>, .learn = learn_processors},
    {.id = "host.numa", .source = "/sys/devices/system/node; /proc/sys/kernel/numa_balancing",
     .says = "as the profile says", .severity = drain, .fault = setup, .phases = when("P"),
     .group = host, .reads = {online_nodes, balancing},
     .is_asked =
         is_set<&HealthProfile::host, &HostProfile::numa_nodes, &HostProfile::numa_balancing>,
     .judge = in_one_finding<judge_numa>, .learn = learn_numa},
  };
  // clang-format on
  return all;
}

}  // namespace muster
