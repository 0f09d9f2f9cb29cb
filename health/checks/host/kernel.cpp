#include <sys/timex.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <string>

#include "health/checks/host/host_checks.h"
#include "health/model/baseline.h"
#include "health/model/check_words.h"
#include "health/read/files.h"
#include "scheduler/text/text.h"

namespace muster {

namespace {

constexpr std::string_view tainted = "/proc/sys/kernel/tainted";
constexpr std::string_view adjtimex_probe = "adjtimex:";

// Modules that are proprietary, out of tree or unsigned (0, 12, 13) are expected on a GPU node.
struct TaintBit {
  int bit;
  const char* meaning;
  bool is_hard;
};
constexpr std::array taint_bits{
    TaintBit{4, "machine check (M)", true}, TaintBit{7, "oops (D)", true},
    TaintBit{14, "soft lockup (L)", true}, TaintBit{9, "warning (W)", false}};

void judge_synchronised(JudgedCheck& judged, const SourceFiles& files) {
  const FileReading& reading = files.reading(adjtimex_probe);
  const auto status = probe_number(reading.text, "status");
  if (!status) return judged.unreadable(adjtimex_probe, reading);
  judged.require((*status & STA_UNSYNC) == 0,
                 (*status & STA_UNSYNC) == 0 ? "synchronised" : "not synchronised", "synchronised");
}

void judge_offset(JudgedCheck& judged, double offset_ms, double limit_ms) {
  judged.require(std::abs(offset_ms) < limit_ms, std::to_string(std::llround(offset_ms)) + " ms",
                 "< " + std::to_string(std::llround(limit_ms)) + " ms");
}

void judge_taint(JudgedCheck& judged, const CheckInput& input) {
  const auto bits = input.files.number(tainted);
  if (!bits || *bits < 0) return judged.unreadable(tainted, input.files.reading(tainted));
  judged.pass(std::to_string(*bits));
  for (const TaintBit& one : taint_bits) {
    if ((*bits >> one.bit & 1) == 0) continue;
    const std::string expected = "bit " + std::to_string(one.bit) + " clear";
    one.is_hard ? judged.fail(one.meaning, expected) : judged.warn(one.meaning, expected);
  }
  judged.add_evidence("tainted " + std::to_string(*bits));
}

void judge_clock(JudgedCheck& judged, const CheckInput& input) {
  const double limit = input.limit("skew_ms");
  judge_synchronised(judged, input.files);
  // What the kernel has still to make up for, as the program says that sets the clock.
  const auto pending_us = probe_number(input.files.reading(adjtimex_probe).text, "offset_us");
  if (pending_us) judge_offset(judged, static_cast<double>(*pending_us) / 1000, limit);
  const auto offset = input.host->clock_offset;
  if (offset) judge_offset(judged, static_cast<double>(offset->count()), limit);
}

void judge_reboots(JudgedCheck& judged, const CheckInput& input) {
  const auto& history = input.host->boots;
  if (history.empty()) return;
  // It may be one more.
  if (history.back().boot_id.empty()) return judged.unknown("the boot's id cannot be read");
  int reboots = 0;
  std::string last;
  for (const BootSeen& boot : history) {
    if (boot.boot_id.empty() || boot.boot_id == last) continue;
    const bool is_first = last.empty();
    last = boot.boot_id;
    if (!is_first && boot.first_seen > input.host->now - std::chrono::hours(24)) ++reboots;
  }
  const double limit = input.limit("per_day");
  judged.require(reboots < limit, std::to_string(reboots),
                 "< " + std::to_string(static_cast<std::int64_t>(limit)) + " in 24 h");
}

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

constexpr std::string_view controllers = "/sys/devices/system/edac/mc";

std::optional<std::int64_t> count_of(const SourceFiles& files, const std::string& path) {
  const auto number = files.number(path);
  return number && *number >= 0 ? number : std::nullopt;
}

// Of a shorter time the whole day's are allowed: a sample each minute would else make one error
// 1440 a day.
double allowed_of(Milliseconds elapsed, double per_day) {
  const double days = static_cast<double>(elapsed.count()) / 86'400'000;
  return std::floor(per_day * std::max(1.0, days));
}

void judge_controller(JudgedCheck& judged, const EdacCounts& before, const EdacCounts& now,
                      double allowed) {
  if (counts_anew(before, now)) return;
  if (!now.uncorrected) judged.unknown("ue_count could not be read");
  if (now.uncorrected && before.uncorrected) {
    const std::int64_t grew = *now.uncorrected - *before.uncorrected;
    judged.require(grew == 0, std::to_string(grew) + " uncorrected", "0");
  }
  if (!now.corrected) return judged.unknown("ce_count could not be read");
  if (!before.corrected) return;
  const std::int64_t grew = *now.corrected - *before.corrected;
  const std::string value = std::to_string(grew) + " corrected";
  if (static_cast<double>(grew) <= allowed) return judged.pass(value);
  judged.warn(value, "<= " + std::to_string(static_cast<std::int64_t>(allowed)));
}

std::string why_unknown(const EdacSample& now, const CheckInput& input) {
  if (!now.error.empty()) return std::string(controllers) + ": " + now.error;
  if (now.boot_id.empty()) return "the boot id could not be read";
  const bool is_missed = now.by_controller.empty() && is_named_by(input.profile, input.check().id);
  return is_missed ? std::string(controllers) + ": the kernel knows no memory controller" : "";
}

// One finding for each controller. One of which there is no earlier sample since the node started,
// or whose counters fell, is not judged: the sample is where the next one starts from.
std::vector<HealthFinding> judge_edac(const CheckInput& input) {
  const EdacSample& before = input.host->edac_before;
  const EdacSample now = edac_sample_of(input.files, input.host->now);
  std::vector<HealthFinding> findings;
  if (const std::string why = why_unknown(now, input); !why.empty()) {
    JudgedCheck judged(input.check());
    judged.unknown(why);
    judged.add_to(findings);
  }
  if (before.boot_id != now.boot_id || now.at < before.at) return findings;
  const double allowed = allowed_of(now.at - before.at, input.limit("ce_per_day"));
  for (const auto& [name, counts] : now.by_controller) {
    const auto earlier = before.by_controller.find(name);
    if (earlier == before.by_controller.end()) continue;
    JudgedCheck judged(input.check(), name);
    judged.set_source(std::string(controllers) + "/" + name);
    judge_controller(judged, earlier->second, counts, allowed);
    judged.add_to(findings);
  }
  return findings;
}

constexpr std::array<std::string_view, 3> library_folders{"/usr/lib/x86_64-linux-gnu", "/usr/lib64",
                                                          "/usr/lib/aarch64-linux-gnu"};

// "libcuda.so.535.104.05", where "libcuda.so.1" leads, of which the end is told.
std::optional<std::string> library_version(const SourceFiles& files, std::string_view name,
                                           std::string_view link) {
  for (const std::string_view folder : library_folders) {
    const auto target = files.text(std::string(folder) + "/" + std::string(link) + "@");
    if (!target) continue;
    const std::string_view file = target->substr(target->rfind('/') + 1);
    const std::string prefix = std::string(name) + ".so.";
    if (file.starts_with(prefix)) return std::string(file.substr(prefix.size()));
  }
  return std::nullopt;
}

void add_text(Facts& facts, const std::string& fact, const SourceFiles& files,
              std::string_view path) {
  const auto text = files.text(path);
  if (text && !text->empty()) facts[fact] = *text;
}

void judge_net(JudgedCheck& judged, const CheckInput& input) {
  const NetFacts& facts = input.host->net;
  if (facts.round_trip) {
    const double limit = input.limit("round_trip_ms");
    judged.require(static_cast<double>(facts.round_trip->count()) <= limit,
                   "round trip " + std::to_string(facts.round_trip->count()) + " ms",
                   "<= " + std::to_string(static_cast<std::int64_t>(limit)) + " ms");
  }
  for (const std::string& peer : facts.unknown_peers)
    judged.fail(peer + " not resolved", "resolved");
  if (facts.is_master_port_free)
    judged.require(*facts.is_master_port_free,
                   *facts.is_master_port_free ? "master port free" : "master port in use",
                   "master port free");
}

}  // namespace

bool counts_anew(const EdacCounts& before, const EdacCounts& now) {
  const auto has_fallen = [&](auto count) {
    return before.*count && now.*count && *(now.*count) < *(before.*count);
  };
  return has_fallen(&EdacCounts::uncorrected) || has_fallen(&EdacCounts::corrected);
}

EdacSample edac_sample_of(const SourceFiles& files, Time at) {
  EdacSample sample;
  sample.boot_id = boot_id_of(files);
  sample.at = at;
  const FileReading& listing = files.reading(controllers);
  // No driver for its memory controllers, as on most virtual machines: there are none to judge.
  if (!listing.is_missing) sample.error = listing.error;
  for (const std::string& name : files.names_below(controllers)) {
    const std::string folder = std::string(controllers) + "/" + name;
    sample.by_controller[name] = {count_of(files, folder + "/ue_count"),
                                  count_of(files, folder + "/ce_count")};
  }
  return sample;
}

Facts versions_of(const SourceFiles& files) {
  Facts facts;
  add_text(facts, "kernel", files, "/proc/sys/kernel/osrelease");
  add_text(facts, "ofed", files, "/sys/module/mlx5_core/version");
  if (const auto cuda = library_version(files, "libcuda", "libcuda.so.1")) facts["libcuda"] = *cuda;
  if (const auto nccl = library_version(files, "libnccl", "libnccl.so.2")) facts["nccl"] = *nccl;
  return facts;
}

Facts mtus_of(const SourceFiles& files) {
  Facts facts;
  constexpr std::string_view interfaces = "/sys/class/net";
  for (const std::string& name : files.names_below(interfaces)) {
    const std::string folder = std::string(interfaces) + "/" + name;
    if (files.text(folder + "/operstate") == "up")
      add_text(facts, "mtu " + name, files, folder + "/mtu");
  }
  return facts;
}

std::span<const CheckSpec> kernel_state_checks() {
  using namespace check_words;
  // clang-format off
  static const CheckSpec all[] = {
    {.id = "host.clock", .source = "adjtimex",
     .says = "synchronised, less than 50 ms from the controller's", .phases = when("P"),
     .group = host, .reads = {adjtimex_probe}, .limits = {{"skew_ms", "ms", 50}},
     .judge = in_one_finding<judge_clock>},
    {.id = "host.taint", .source = tainted, .says = "no machine check, oops, lockup or warning",
     .severity = reboot, .believe = event, .phases = when("PT"), .group = host, .reads = {tainted},
     .judge = in_one_finding<judge_taint>},
    {.id = "host.reboots", .source = "/proc/sys/kernel/random/boot_id",
     .says = "fewer than 3 in 24 h", .severity = rma, .believe = event, .phases = when("P"),
     .group = host, .reads = {"/proc/sys/kernel/random/boot_id"},
     .limits = {{"per_day", "1/day", 3}}, .judge = in_one_finding<judge_reboots>},
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
    // A memory module that wears out shows more corrected errors; single ones come from space. They
    // only warn.
    {.id = "host.edac",
     .source = "/sys/devices/system/edac/mc/mc*/{ue,ce}_count; kmsg Hardware Error",
     .says = "no new uncorrected error, at most 9 corrected ones a day",
     .severity = stop_reboot_then_rma, .believe = delta, .phases = when("TE"), .group = host,
     .reads = {"/proc/sys/kernel/random/boot_id", "/sys/devices/system/edac/mc/mc*/ue_count",
               "/sys/devices/system/edac/mc/mc*/ce_count"}, .limits = {{"ce_per_day", "1/day", 9}},
     .is_certain = said_by_hardware, .judge = judge_edac},
    // Nodes are compared with each other (health/learn/profile.h).
    {.id = "host.versions", .source = "kernel, OFED, NCCL, libcuda, binary hash",
     .says = "those of the majority", .severity = drain, .fault = setup, .phases = when("P"),
     .cost = 2ms, .is_often_shared = true, .group = host,
     .reads = {"/proc/sys/kernel/osrelease", "/sys/module/mlx5_core/version",
               "/usr/lib/x86_64-linux-gnu/libcuda.so.1@", "/usr/lib/x86_64-linux-gnu/libnccl.so.2@",
               "/usr/lib64/libcuda.so.1@", "/usr/lib64/libnccl.so.2@",
               "/usr/lib/aarch64-linux-gnu/libcuda.so.1@",
               "/usr/lib/aarch64-linux-gnu/libnccl.so.2@"}},
    // Within a data centre it takes a few ms; by then the node or its network is in trouble.
    {.id = "host.net", .source = "/sys/class/net/*/mtu, peers' names, the master port",
     .says = "peers are known by name, the port is free, the MTU is the majority's",
     .severity = drain, .fault = setup, .phases = when("P"), .cost = 5ms,
     .group = host, .reads = {"/sys/class/net/*/operstate", "/sys/class/net/*/mtu"},
     .limits = {{"round_trip_ms", "ms", 1000}}, .judge = in_one_finding<judge_net>},
  };
  // clang-format on
  return all;
}

}  // namespace muster
