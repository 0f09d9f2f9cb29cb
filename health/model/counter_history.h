// What counters said over time, and how much they grew within a window. A counter is judged by its
// growth alone: an absolute value says more of the uptime than of the device. Owned by who samples;
// one thread; never reads anything itself. Times are those of the wall clock since 1970.
#pragma once

#include <chrono>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "scheduler/text/fields.h"

namespace muster {

struct CounterKey {
  std::string owner;    // the boot; of what outlives a boot, the serial of the board
  std::string device;   // "mlx5_3:1"
  std::string counter;  // "symbol_error"
  friend auto operator<=>(const CounterKey&, const CounterKey&) = default;

  MUSTER_FIELDS(owner, device, counter)
};

struct CounterSample {
  std::chrono::milliseconds at{0};
  std::uint64_t value = 0;
  friend bool operator==(const CounterSample&, const CounterSample&) = default;

  MUSTER_FIELDS(at, value)
};

// One counter's samples since its baseline: times rise, values do not fall.
struct CounterTrack {
  CounterKey key;
  std::vector<CounterSample> samples;
  friend bool operator==(const CounterTrack&, const CounterTrack&) = default;

  MUSTER_FIELDS(key, samples)
};

struct CounterGrowth {
  std::uint64_t from = 0;
  std::uint64_t to = 0;
  std::chrono::milliseconds elapsed{0};  // less than the window while the counter is new
  std::uint64_t amount() const { return to - from; }
};
// It stands at the maximum of its register: it grew by this or more, and from now on tells nothing.
struct SaturatedCounter {
  CounterGrowth at_least;
};
// Seen less than twice since the start, or since it became smaller.
struct NoBaseline {};
using GrowthReading = std::variant<CounterGrowth, SaturatedCounter, NoBaseline>;

// Whether `value` is the maximum of a register of `bits`, or of a wider one when it is above that:
// some drivers keep the counters of an 8-bit register in 32 or 64 bits.
bool is_saturated(std::uint64_t value, int bits);

struct CounterHistoryLimits {
  std::chrono::milliseconds horizon = std::chrono::hours(1);  // the longest window that is asked
  // Denser samples replace the latest one, so that a second's sampling costs no more memory.
  std::chrono::milliseconds spacing = std::chrono::seconds(15);
  // 8 ports of 21 counters and 8 GPUs of 30 make 408: room for the counters of some boots.
  std::size_t tracks = 4096;
};

class CounterHistory {
 public:
  explicit CounterHistory(CounterHistoryLimits limits = {}) : limits_(limits) {}
  // A saved history; tracks that are none (times or values out of order) are left out.
  CounterHistory(const std::vector<CounterTrack>& state, CounterHistoryLimits limits = {});

  // A smaller value, or a clock that was set back, restarts the baseline.
  void observe(const CounterKey& key, CounterSample sample);
  // Up to the latest sample, from the newest one that is a window older; else from the oldest.
  GrowthReading growth(const CounterKey& key, std::chrono::milliseconds window, int bits) const;
  std::vector<CounterTrack> state() const;

 private:
  using Samples = std::vector<CounterSample>;
  void make_room();
  void trim(Samples& samples) const;

  CounterHistoryLimits limits_;
  std::map<CounterKey, Samples> tracks_;
};

}  // namespace muster
