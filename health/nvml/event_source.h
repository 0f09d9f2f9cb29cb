// The driver's events of all GPUs of a node: XIDs, changes of the recovery action, memory errors.
// Needs an initialised library that lives longer; waits in the calling thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <vector>

#include "health/nvml/library.h"
#include "scheduler/model/result.h"

namespace muster {

inline constexpr std::uint64_t gpu_event_xid = 0x8;                 // data: the code, 999 unknown
inline constexpr std::uint64_t gpu_event_unavailable = 0x4000;      //
inline constexpr std::uint64_t gpu_event_recovery_action = 0x8000;  // data: the action
inline constexpr std::uint64_t gpu_event_usual =
    gpu_event_xid | gpu_event_unavailable | gpu_event_recovery_action;

struct GpuEvent {
  std::optional<int> gpu;  // nothing: of a device that was not asked to tell
  std::uint64_t type = 0;
  std::uint64_t data = 0;
  friend bool operator==(const GpuEvent&, const GpuEvent&) = default;
};

class GpuEventSource {
 public:
  // Of the types asked for, those that each GPU supports. An error when no GPU tells any.
  static Result<GpuEventSource> open(const NvmlLibrary& nvml, std::uint64_t types);
  GpuEventSource(GpuEventSource&& other) noexcept;
  GpuEventSource& operator=(GpuEventSource&&) = delete;
  ~GpuEventSource();

  // Nothing when there was none in that time.
  Result<std::optional<GpuEvent>> wait(std::chrono::milliseconds timeout);

 private:
  GpuEventSource(const NvmlLibrary& nvml, NvmlEventSet set) : nvml_(nvml), set_(set) {}
  int register_gpus(std::uint64_t types);

  const NvmlLibrary& nvml_;
  NvmlEventSet set_;
  std::vector<NvmlDevice> devices_;  // by index
};

}  // namespace muster
