#include "health/checks/host/processes.h"

#include <algorithm>
#include <charconv>
#include <set>

#include "health/checks/host/host_checks.h"
#include "health/model/check_words.h"
#include "health/model/judged_check.h"
#include "health/read/files.h"

namespace muster {

namespace {

// A finding names this many of them.
constexpr std::size_t named_max = 16;

std::string_view next_stat_word(std::string_view& text) {
  const std::size_t begin = std::min(text.find_first_not_of(" \n"), text.size());
  text.remove_prefix(begin);
  const std::string_view word = text.substr(0, text.find_first_of(" \n"));
  text.remove_prefix(word.size());
  return word;
}

template <class Number>
std::optional<Number> whole_number(std::string_view word) {
  Number number = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
  const bool is_whole = !word.empty() && error == std::errc() && end == word.data() + word.size();
  return is_whole ? std::optional(number) : std::nullopt;
}

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

template <class Process>
void name_them(JudgedCheck& judged, const std::vector<Process>& processes) {
  for (std::size_t at = 0; at < std::min(processes.size(), named_max); ++at)
    judged.add_evidence("process " + std::to_string(processes[at].pid) + " " + processes[at].name);
}

bool belongs_to(const ProcessSeen& process, const EndedJob& job) {
  const bool has_token = !job.token.empty() && process.token == job.token;
  return has_token || (job.uid && process.uid == *job.uid);
}

}  // namespace

std::optional<ProcessState> parse_process_stat(std::string_view text) {
  const std::size_t open = text.find('(');
  const std::size_t close = text.rfind(')');
  if (open == text.npos || close == text.npos || close < open) return std::nullopt;
  ProcessState process;
  process.name = text.substr(open + 1, close - open - 1);
  std::string_view rest = text.substr(close + 1);
  const std::string_view state = next_stat_word(rest);
  for (int skipped = 4; skipped <= 13; ++skipped) next_stat_word(rest);  // fields as in proc(5)
  const auto user = whole_number<std::uint64_t>(next_stat_word(rest));
  const auto system = whole_number<std::uint64_t>(next_stat_word(rest));
  for (int skipped = 16; skipped <= 21; ++skipped) next_stat_word(rest);
  const auto start = whole_number<std::uint64_t>(next_stat_word(rest));
  if (state.size() != 1 || !user || !system || !start) return std::nullopt;
  process.state = state.front();
  process.cpu_ticks = *user + *system;
  process.start_ticks = *start;
  return process;
}

std::optional<std::uint64_t> parse_sleeps(std::string_view text) {
  constexpr std::string_view key = "\nvoluntary_ctxt_switches:";
  const std::size_t found = text.find(key);
  if (found == text.npos) return std::nullopt;
  text.remove_prefix(found + key.size());
  text.remove_prefix(std::min(text.find_first_not_of("\t "), text.size()));
  return whole_number<std::uint64_t>(next_stat_word(text));
}

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

std::vector<StuckProcess> stuck_processes(std::span<const ProcessStates> samples) {
  std::vector<StuckProcess> stuck;
  if (samples.empty()) return stuck;
  for (const auto& [pid, first] : samples.front()) {
    if (sleeps_throughout(pid, samples)) stuck.push_back({pid, first.name});
  }
  return stuck;
}

HealthFinding judge_stuck(const CheckSpec& check, std::span<const ProcessStates> samples) {
  JudgedCheck judged(check);
  if (samples.empty() || samples.front().empty()) {
    judged.unknown("/proc: no process could be read");
  } else if (samples.size() < stuck_samples && has_sleeper(samples.front())) {
    judged.unknown(std::to_string(samples.size()) + " samples, wanted " +
                   std::to_string(stuck_samples));
  } else {
    const auto stuck = stuck_processes(samples);
    judged.require(stuck.empty(), std::to_string(stuck.size()), "0");
    name_them(judged, stuck);
  }
  return *judged.finding();
}

std::vector<ProcessSeen> leftovers_of(std::span<const ProcessSeen> processes,
                                      std::span<const EndedJob> ended) {
  std::vector<ProcessSeen> leftovers;
  for (const ProcessSeen& process : processes) {
    const bool has_ended = process.state == 'Z' || process.state == 'X';  // holds nothing any more
    const bool is_left =
        std::ranges::any_of(ended, [&](const EndedJob& job) { return belongs_to(process, job); });
    if (is_left && !has_ended) leftovers.push_back(process);
  }
  return leftovers;
}

std::optional<HealthFinding> judge_leftovers(const CheckSpec& check,
                                             std::span<const ProcessSeen> processes,
                                             std::span<const EndedJob> ended) {
  if (ended.empty()) return std::nullopt;
  JudgedCheck judged(check);
  if (processes.empty()) {  // the one that looks is a process too
    judged.unknown("/proc: no process could be read");
    return judged.finding();
  }
  const auto leftovers = leftovers_of(processes, ended);
  judged.require(leftovers.empty(), std::to_string(leftovers.size()), "0");
  name_them(judged, leftovers);
  return judged.finding();
}

bool has_sleeper(const SourceFiles& look) {
  return has_sleeper(process_states_of(look));
}

namespace {

// One look is enough where nobody sleeps.
std::vector<HealthFinding> judge_looks(const CheckInput& input) {
  if (input.looks.empty()) return {};
  std::vector<ProcessStates> states;
  for (const SourceFiles& look : input.looks) states.push_back(process_states_of(look));
  return {judge_stuck(input.check(), states)};
}

// Whose process it is, and what state it is in.
std::vector<ProcessSeen> processes_of(const SourceFiles& look) {
  std::vector<ProcessSeen> seen;
  for (const auto& [pid, state] : process_states_of(look)) {
    const FileReading& owner = look.reading("stat:/proc/" + std::to_string(pid));
    const auto uid = owner.ok() ? probe_number(owner.text, "uid") : std::optional<std::int64_t>();
    if (uid) seen.push_back({pid, *uid, state.state, state.name, {}});
  }
  return seen;
}

std::vector<HealthFinding> judge_left(const CheckInput& input) {
  std::vector<EndedJob> ended;
  for (const std::int64_t uid : input.host->ended_uids) ended.push_back({{}, uid});
  std::vector<HealthFinding> findings;
  if (!ended.empty())
    append_findings(findings, judge_leftovers(input.check(), processes_of(input.files), ended));
  return findings;
}

// The kernel cuts names off behind 15 letters.
constexpr std::size_t process_name_max = 15;

std::vector<HealthFinding> judge_services(const CheckInput& input) {
  std::set<std::string> running;
  const ProcessStates states = process_states_of(input.files);
  for (const auto& [pid, state] : states) {
    if (state.state != 'Z' && state.state != 'X') running.insert(state.name);
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

std::vector<HealthFinding> judge_helper(const CheckInput& input) {
  const auto& facts = input.host->helper;
  if (!facts) return {};
  JudgedCheck judged(input.check());
  const auto unreaped_s =
      static_cast<double>(facts->unreaped.value_or(Milliseconds(0)).count()) / 1000;
  if (unreaped_s > input.limit("unreaped_s")) {
    judged.unknown("killed " + std::to_string(static_cast<std::int64_t>(unreaped_s)) +
                   " s ago, and still there");
  } else {
    judged.pass(std::to_string(facts->restarts) + " restarts");
  }
  return judged.findings();
}

}  // namespace

namespace process_rows {

using namespace check_words;

constexpr std::chrono::milliseconds list_cost{20};

// clang-format off
const CheckSpec all[] = {
    // What processes wait for is a file server, more often than not.
    {.id = "host.dstate", .source = "/proc/*/stat",
     .says = "no process in uninterruptible sleep for 5 samples", .severity = drain_then_reboot,
     .phases = when("TE"), .cost = list_cost, .is_often_shared = true, .group = processes,
     .judge = judge_looks},
    {.id = "host.leftovers", .source = "/proc/*/{stat,environ}",
     .says = "no process of a job that ended", .severity = drain, .phases = when("PE"),
     .cost = list_cost, .group = processes, .judge = judge_left},
    {.id = "host.services", .source = "/proc/*/stat", .says = "the profile's services run",
     .severity = drain, .fault = setup, .phases = when("PT"), .cost = list_cost, .group = host,
     .reads_for = service_sources, .judge = judge_services},
    // The controller judges it.
    {.id = "host.agent", .source = "latest heartbeat", .says = "at most 15 s old",
     .severity = drain, .phases = when("T"), .group = host, .is_always_required = true},
    // A killed process is gone within milliseconds, unless it sleeps in the kernel.
    {.id = "host.helper", .source = "the NVML helper's process",
     .says = "none that was killed and stays", .severity = drain, .phases = when("T"),
     .group = host, .limits = {{"unreaped_s", "s", 2}}, .is_always_required = true,
     .judge = judge_helper},
};
// clang-format on

}  // namespace process_rows

std::span<const CheckSpec> process_checks() {
  return process_rows::all;
}

}  // namespace muster
