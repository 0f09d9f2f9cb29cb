#include "health/active/clock_tally.h"

#include <algorithm>

#include "health/model/gpu_readings.h"

namespace muster {

namespace {

std::string reasons_text(std::uint64_t reasons) {
  std::string text;
  const auto add = [&](std::uint64_t bit, const char* name) {
    if ((reasons & bit) != 0) text += (text.empty() ? "" : ", ") + std::string(name);
  };
  add(hardware_slowdown, "hardware slowdown");
  add(hardware_thermal, "hardware thermal");
  add(hardware_power_brake, "power brake");
  return text;
}

}  // namespace

void ClockTally::add(const GpuClocks& clocks) {
  Gpu& gpu = gpus_[clocks.gpu];
  if (clocks.rc != 0) {
    gpu.last_rc = clocks.rc;
    return;
  }
  ++gpu.answers;
  if (clocks.celsius)
    gpu.hottest = std::max(gpu.hottest.value_or(*clocks.celsius), *clocks.celsius);
  const std::uint64_t slowing = clocks.reasons & hardware_clock_reasons;
  if (slowing == 0) {
    gpu.in_row = 0;
    gpu.reasons_in_row = 0;
    return;
  }
  gpu.reasons_in_row |= slowing;
  ++gpu.in_row;
  if (gpu.in_row < slowed_answers_least) return;
  gpu.slowed += gpu.in_row == slowed_answers_least ? slowed_answers_least : 1;
  gpu.reasons |= gpu.reasons_in_row;
}

PerformanceSample ClockTally::sample(int number, const Gpu& gpu, std::size_t expected) {
  PerformanceSample sample{burn_clock_metric, "gpu" + std::to_string(number), std::nullopt, ""};
  const std::string heat = gpu.hottest ? ", at most " + std::to_string(*gpu.hottest) + " C" : "";
  if (gpu.slowed > 0) {
    sample.value = static_cast<double>(gpu.slowed);
    sample.note = reasons_text(gpu.reasons) + heat;
  } else if (gpu.answers * 10 < expected * 9) {
    sample.error = "its clocks were told in " + std::to_string(gpu.answers) + " of " +
                   std::to_string(expected) + " seconds";
    if (gpu.last_rc != 0) sample.error += ": " + nvml_code_text(gpu.last_rc);
  } else {
    sample.value = 0;
  }
  return sample;
}

std::vector<PerformanceSample> ClockTally::samples(std::size_t expected) const {
  std::vector<PerformanceSample> all;
  for (const auto& [number, gpu] : gpus_) all.push_back(sample(number, gpu, expected));
  return all;
}

std::vector<PerformanceSample> clock_samples(const ClockTally& tally,
                                             const ClocksWatched& watched) {
  const auto of_node = [](const std::string& why) {
    return PerformanceSample{burn_clock_metric, "", std::nullopt, why};
  };
  std::vector<PerformanceSample> all = tally.samples(watched.looks);
  const bool any_slowed = std::ranges::any_of(
      all, [](const PerformanceSample& one) { return one.value.value_or(0) > 0; });
  if (!watched.had_load && !any_slowed) return {of_node("the GPUs had no load")};
  if (!watched.error.empty()) {
    all.push_back(of_node(watched.error));
  } else if (all.size() < static_cast<std::size_t>(watched.gpus)) {
    all.push_back(of_node("the driver told of " + std::to_string(all.size()) + " of " +
                          std::to_string(watched.gpus) + " GPUs"));
  }
  return all;
}

}  // namespace muster
