// The management library of the driver, loaded while the program runs: nodes without GPUs have
// none, and old drivers lack functions. Calls may hang in the kernel for ever: used in a child
// process that can be killed, by one thread.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "health/nvml/api.h"
#include "scheduler/model/result.h"

namespace muster {

// A function by the name that it is told by, which the library may call otherwise: the newest of
// `symbols` comes first.
struct NvmlCall {
  constexpr NvmlCall(const char* told) : name(told), symbols{told, nullptr} {}
  constexpr NvmlCall(const char* told, const char* newest, const char* older = nullptr)
      : name(told), symbols{newest, older} {}

  const char* name;
  std::array<const char*, 2> symbols;
};

// The environment may name another library, as tests do.
inline constexpr const char* nvml_library_variable = "MUSTER_NVML_LIB";
inline constexpr const char* nvml_library_default = "libnvidia-ml.so.1";

class NvmlLibrary {
 public:
  // Without any function.
  NvmlLibrary() = default;
  // An empty path: what the environment names, else the usual one.
  static Result<NvmlLibrary> load(std::string path = {});

  bool has(const NvmlCall& what) const { return find(what) != nullptr; }
  // The types of the arguments are those of the library's header. "not found" where the library
  // lacks the function.
  template <class... Arguments>
  NvmlReturn call(const NvmlCall& what, Arguments... arguments) const {
    const auto function = reinterpret_cast<NvmlReturn (*)(Arguments...)>(find(what));
    return function == nullptr ? nvml_function_not_found : function(arguments...);
  }

 private:
  void* find(const NvmlCall& what) const;

  struct Unload {
    void operator()(void* handle) const;
  };
  std::unique_ptr<void, Unload> handle_;
};

inline constexpr NvmlCall nvml_init{"nvmlInit", "nvmlInit_v2"};
inline constexpr NvmlCall nvml_shutdown{"nvmlShutdown"};
inline constexpr NvmlCall nvml_count{"nvmlDeviceGetCount", "nvmlDeviceGetCount_v2"};
inline constexpr NvmlCall nvml_handle{"nvmlDeviceGetHandleByIndex",
                                      "nvmlDeviceGetHandleByIndex_v2"};

// The driver's events of all GPUs of a node: XIDs, changes of the recovery action, memory errors.
// Needs an initialised library that lives longer; waits in the calling thread.

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
