#include "health/checks/start_gate.h"

#include <algorithm>
#include <cstdlib>

#include "scheduler/text/text.h"

namespace muster {

namespace {

std::string mib(std::int64_t bytes) {
  return std::to_string(bytes >> 20) + " MiB";
}

std::string first_label(const std::string& name) {
  return name.substr(0, name.find('.'));
}

std::optional<std::string> judge_name(const StartGateFacts& facts, const StartGateWanted& wanted) {
  if (wanted.expected_host.empty() || facts.host_name == wanted.expected_host) return {};
  if (first_label(facts.host_name) == first_label(wanted.expected_host)) return {};
  return "the host calls itself " + facts.host_name + ", wanted " + wanted.expected_host;
}

std::optional<std::string> judge_home(const StartGateFacts& facts, const StartGateWanted&) {
  if (facts.home_error.empty()) return {};
  return facts.home + " is not writable: " + facts.home_error;
}

std::optional<std::string> judge_disk(const StartGateFacts& facts, const StartGateWanted&) {
  const std::string wanted = ", wanted at least " + mib(free_disk_min_bytes);
  if (!facts.free_disk_bytes) return "free space of " + facts.home + " cannot be read" + wanted;
  if (*facts.free_disk_bytes >= free_disk_min_bytes) return {};
  return mib(*facts.free_disk_bytes) + " free on the disk of " + facts.home + wanted;
}

std::optional<std::string> judge_memory(const StartGateFacts& facts, const StartGateWanted&) {
  const std::string wanted = ", wanted at least " + mib(memory_available_min_bytes);
  if (!facts.memory_available_bytes) return "available memory cannot be read" + wanted;
  if (*facts.memory_available_bytes >= memory_available_min_bytes) return {};
  return mib(*facts.memory_available_bytes) + " of memory available" + wanted;
}

std::optional<std::string> judge_clock(const StartGateFacts& facts, const StartGateWanted& wanted) {
  const std::int64_t offset = facts.now_ms - wanted.now_ms;
  if (wanted.now_ms == 0 || std::llabs(offset) < clock_offset_max_ms) return {};
  return "the clock is " + std::to_string(std::llabs(offset)) + " ms " +
         (offset > 0 ? "ahead of" : "behind") + " the controller's, wanted less than " +
         std::to_string(clock_offset_max_ms) + " ms: start a time service";
}

std::optional<std::string> judge_programs(const StartGateFacts& facts, const StartGateWanted&) {
  if (facts.missing_programs.empty()) return {};
  return "not found in PATH: " + joined(facts.missing_programs);
}

struct Check {
  std::string_view id;
  std::optional<std::string> (*judge)(const StartGateFacts&, const StartGateWanted&);
  bool lasting = false;
};
constexpr Check start_checks[] = {
    {"host.name", judge_name},   {"host.home", judge_home},
    {"host.disk", judge_disk},   {"host.mem", judge_memory},
    {"host.clock", judge_clock}, {"host.programs", judge_programs, true},
};

}  // namespace

std::vector<std::string_view> start_gate_checks() {
  std::vector<std::string_view> ids;
  for (const Check& check : start_checks) ids.push_back(check.id);
  return ids;
}

std::vector<CheckFailure> judge_start_gate(const StartGateFacts& facts,
                                           const StartGateWanted& wanted) {
  const auto names = [](const std::vector<std::string>& list, std::string_view id) {
    return std::find(list.begin(), list.end(), id) != list.end();
  };
  std::vector<CheckFailure> failures;
  if (names(wanted.skip, "all")) return failures;
  for (const Check& check : start_checks) {
    const bool is_left_out = !wanted.only.empty() && !names(wanted.only, check.id);
    if (is_left_out || names(wanted.skip, check.id)) continue;
    auto sentence = check.judge(facts, wanted);
    if (sentence) failures.push_back({std::string(check.id), std::move(*sentence), check.lasting});
  }
  return failures;
}

}  // namespace muster
