#include "health/checks/host/processes.h"

#include <algorithm>
#include <set>

#include "health/checks/host/host_checks.h"
#include "health/model/check_words.h"
#include "health/read/files.h"
#include "scheduler/text/text.h"

namespace muster {

namespace {

// A finding names this many of them.
constexpr std::size_t named_max = 16;

// Whether it is the same process, and did not wake up between the two samples. The time that it ran
// is a weaker sign: other threads of it may run while the first is stuck.
bool sleeps_on(const ProcessState& before, const ProcessState& now) {
  if (now.state != 'D' || now.start_ticks != before.start_ticks) return false;
  if (now.sleeps && before.sleeps) return *now.sleeps == *before.sleeps;
  return now.sleeps || now.cpu_ticks == before.cpu_ticks;
}

bool sleeps_throughout(int pid, std::span<const ProcessStates> samples) {
  const ProcessState* before = nullptr;
  for (const ProcessStates& sample : samples) {
    const auto found = sample.find(pid);
    if (found == sample.end() || found->second.state != 'D') return false;
    if (before != nullptr && !sleeps_on(*before, found->second)) return false;
    before = &found->second;
  }
  return true;
}

bool has_sleeper(const ProcessStates& states) {
  return std::ranges::any_of(states, [](const auto& one) { return one.second.state == 'D'; });
}

void name_them(JudgedCheck& judged, const ProcessStates& processes) {
  std::size_t named = 0;
  for (const auto& [pid, process] : processes) {
    if (++named > named_max) return;
    judged.add_evidence("process " + std::to_string(pid) + " " + process.name);
  }
}

// Ended, and holds nothing any more.
bool is_over(const ProcessState& process) {
  return process.state == 'Z' || process.state == 'X';
}

// /proc/N/stat. The name may hold spaces and brackets.
std::optional<ProcessState> parse_process_stat(std::string_view text) {
  const std::size_t open = text.find('(');
  const std::size_t close = text.rfind(')');
  if (open == text.npos || close == text.npos || close < open) return std::nullopt;
  ProcessState process;
  process.name = text.substr(open + 1, close - open - 1);
  constexpr std::size_t first = 3;  // of the fields, as in proc(5)
  const auto fields = words_in(text.substr(close + 1));
  if (fields.size() <= 22 - first || fields[0].size() != 1) return std::nullopt;
  const auto user = whole_number<std::uint64_t>(fields[14 - first]);
  const auto system = whole_number<std::uint64_t>(fields[15 - first]);
  const auto start = whole_number<std::uint64_t>(fields[22 - first]);
  if (!user || !system || !start) return std::nullopt;
  process.state = fields[0].front();
  process.cpu_ticks = *user + *system;
  process.start_ticks = *start;
  return process;
}

// voluntary_ctxt_switches of /proc/N/status.
std::optional<std::uint64_t> parse_sleeps(std::string_view text) {
  const auto said = value_in_lines(text, "voluntary_ctxt_switches", ':');
  return said ? whole_number<std::uint64_t>(trimmed(*said)) : std::nullopt;
}

}  // namespace

ProcessStates process_states_of(const SourceFiles& files) {
  ProcessStates states;
  for (const std::string& name : files.names_below("/proc")) {
    const auto pid = whole_number<int>(name);
    if (!pid) continue;
    const FileReading& reading = files.reading("/proc/" + name + "/stat");
    if (!reading.ok()) continue;  // ended meanwhile
    auto state = parse_process_stat(reading.text);
    if (!state) continue;
    const FileReading& status = files.reading("/proc/" + name + "/status");
    if (status.ok()) state->sleeps = parse_sleeps(status.text);
    states.emplace(*pid, *std::move(state));
  }
  return states;
}

std::vector<std::string> process_sources() {
  return {"/proc/[0-9]*/stat"};
}

std::vector<std::string> process_sources_after(const ProcessStates& first) {
  std::vector<std::string> sources;
  for (const auto& [pid, process] : first) {
    if (process.state != 'D') continue;
    sources.push_back("/proc/" + std::to_string(pid) + "/stat");
    sources.push_back("/proc/" + std::to_string(pid) + "/status");
  }
  return sources;
}

bool has_sleeper(const SourceFiles& look) {
  return has_sleeper(process_states_of(look));
}

namespace {

// In uninterruptible sleep in every look, and never awake between them: one that writes much is
// often found asleep too, but gets on. One look is enough where nobody sleeps.
void judge_stuck_processes(JudgedCheck& judged, const CheckInput& input) {
  if (input.looks.empty()) return;
  std::vector<ProcessStates> samples;
  for (const SourceFiles& look : input.looks) samples.push_back(process_states_of(look));
  ProcessStates stuck = samples.front();
  if (stuck.empty()) return judged.unknown("/proc: no process could be read");
  if (samples.size() < stuck_samples && has_sleeper(stuck))
    return judged.unknown(std::to_string(samples.size()) + " samples, wanted " +
                          std::to_string(stuck_samples));
  std::erase_if(stuck, [&](const auto& one) { return !sleeps_throughout(one.first, samples); });
  judged.require(stuck.empty(), std::to_string(stuck.size()), "0");
  name_them(judged, stuck);
}

// Of users that ran here and run nothing now.
void judge_leftovers(JudgedCheck& judged, const CheckInput& input) {
  const auto& ended = input.host->ended_uids;
  if (ended.empty()) return;
  ProcessStates leftovers;
  bool is_any_read = false;
  for (const auto& [pid, process] : process_states_of(input.files)) {
    const FileReading& owner = input.files.reading("stat:/proc/" + std::to_string(pid));
    const auto uid = owner.ok() ? probe_number(owner.text, "uid") : std::nullopt;
    is_any_read = is_any_read || uid;
    if (uid && ended.contains(*uid) && !is_over(process)) leftovers.emplace(pid, process);
  }
  // The one that looks is a process too.
  if (!is_any_read) return judged.unknown("/proc: no process could be read");
  judged.require(leftovers.empty(), std::to_string(leftovers.size()), "0");
  name_them(judged, leftovers);
}

// The kernel cuts names off behind 15 letters.
constexpr std::size_t process_name_max = 15;

std::vector<HealthFinding> judge_services(const CheckInput& input) {
  std::set<std::string> running;
  const ProcessStates states = process_states_of(input.files);
  for (const auto& [pid, state] : states) {
    if (!is_over(state)) running.insert(state.name);
  }
  std::vector<HealthFinding> findings;
  for (const std::string& service : input.profile.host.services) {
    JudgedCheck judged(input.check(), service);
    const bool runs = running.contains(service.substr(0, process_name_max));
    // A mount of /proc may hide what others run.
    if (!runs && !states.contains(1)) {
      judged.unknown("/proc: processes of other users cannot be read");
    } else {
      judged.require(runs, runs ? "runs" : "does not run", "runs");
    }
    judged.add_to(findings);
  }
  return findings;
}

std::vector<std::string> service_sources(const HealthProfile& profile) {
  return profile.host.services.empty() ? std::vector<std::string>() : process_sources();
}

void judge_helper(JudgedCheck& judged, const CheckInput& input) {
  const auto& facts = input.host->helper;
  if (!facts) return;
  const auto unreaped_s =
      static_cast<double>(facts->unreaped.value_or(Milliseconds(0)).count()) / 1000;
  if (unreaped_s > input.limit("unreaped_s"))
    return judged.unknown("killed " + std::to_string(static_cast<std::int64_t>(unreaped_s)) +
                          " s ago, and still there");
  judged.pass(std::to_string(facts->restarts) + " restarts");
}

}  // namespace

std::span<const CheckSpec> process_checks() {
  using namespace check_words;
  // clang-format off
  static const CheckSpec all[] = {
    // What processes wait for is a file server, more often than not.
    {.id = "host.dstate", .source = "/proc/*/stat",
     .says = "no process in uninterruptible sleep for 5 samples", .severity = drain_then_reboot,
     .phases = when("TE"), .cost = 20ms, .is_often_shared = true, .group = processes,
     .judge = in_one_finding<judge_stuck_processes>},
    {.id = "host.leftovers", .source = "/proc/*/{stat,environ}",
     .says = "no process of a job that ended", .severity = drain, .phases = when("PE"),
     .cost = 20ms, .group = processes, .judge = in_one_finding<judge_leftovers>},
    {.id = "host.services", .source = "/proc/*/stat", .says = "the profile's services run",
     .severity = drain, .fault = setup, .phases = when("PT"), .cost = 20ms, .group = host,
     .reads_for = service_sources, .is_asked = is_listed<&HostProfile::services>,
     .judge = judge_services},
    // The controller judges it.
    {.id = "host.agent", .source = "latest heartbeat", .says = "at most 15 s old",
     .severity = drain, .phases = when("T"), .group = host, .is_always_required = true},
    // A killed process is gone within milliseconds, unless it sleeps in the kernel.
    {.id = "host.helper", .source = "the NVML helper's process",
     .says = "none that was killed and stays", .severity = drain, .phases = when("T"),
     .group = host, .limits = {{"unreaped_s", "s", 2}}, .is_always_required = true,
     .judge = in_one_finding<judge_helper>},
  };
  // clang-format on
  return all;
}

}  // namespace muster
