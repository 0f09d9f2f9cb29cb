#include "health/active/allreduce_rounds.h"

#include <algorithm>

namespace muster {

AllreduceRounds allreduce_rounds(std::uint64_t most, std::uint64_t trial_bytes,
                                 std::chrono::nanoseconds trial, std::chrono::milliseconds time) {
  constexpr std::uint64_t mib = 1u << 20;
  const double ns_per_byte = static_cast<double>(std::max<std::int64_t>(1, trial.count())) /
                             static_cast<double>(std::max<std::uint64_t>(1, trial_bytes));
  const double time_ns = static_cast<double>(std::chrono::nanoseconds(time).count());
  const double fitting = time_ns / (allreduce_rounds_least * ns_per_byte);
  AllreduceRounds rounds;
  rounds.bytes = fitting >= static_cast<double>(most) ? most : static_cast<std::uint64_t>(fitting);
  rounds.bytes = std::max(rounds.bytes / mib * mib, std::min(trial_bytes, most));
  const double of_one_ns = ns_per_byte * static_cast<double>(rounds.bytes);
  const double count =
      std::clamp<double>(time_ns / of_one_ns, allreduce_rounds_least, allreduce_rounds_most);
  rounds.count = static_cast<int>(count);
  return rounds;
}

double allreduce_bus_gb_per_s(int ranks, std::uint64_t bytes, std::chrono::nanoseconds took) {
  const double share = 2.0 * (ranks - 1) / ranks;
  return share * static_cast<double>(bytes) / static_cast<double>(took.count());
}

}  // namespace muster
