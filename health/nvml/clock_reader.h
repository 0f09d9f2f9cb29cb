// Asks the driver again and again what slows the clocks of its GPUs, and how hot they are; the
// library stays open in between. Calls may hang for ever: for a child process, one thread.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "health/nvml/library.h"
#include "scheduler/model/result.h"

namespace muster {

// Of NVML's reasons those by which the hardware protects itself: slowdown, heat, the power brake.
inline constexpr std::uint64_t hardware_slowdown = 0x08;
inline constexpr std::uint64_t hardware_thermal = 0x40;
inline constexpr std::uint64_t hardware_power_brake = 0x80;
inline constexpr std::uint64_t hardware_clock_reasons =
    hardware_slowdown | hardware_thermal | hardware_power_brake;

struct GpuClocks {
  int gpu = 0;
  int rc = 0;  // of the library; 0: it told the reasons
  std::uint64_t reasons = 0;
  std::optional<int> celsius;
};

class GpuClockReader {
 public:
  static Result<GpuClockReader> open(NvmlLibrary library);

  std::vector<GpuClocks> read() const;  // of each GPU

 private:
  explicit GpuClockReader(NvmlLibrary library) : library_(std::move(library)) {}
  GpuClocks read(unsigned gpu) const;
  std::optional<int> temperature(NvmlDevice device) const;

  NvmlLibrary library_;
  std::vector<NvmlDevice> devices_;  // null: it gives no handle
};

}  // namespace muster
