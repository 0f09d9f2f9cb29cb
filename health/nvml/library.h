// The management library of the driver, loaded while the program runs: nodes without GPUs have
// none, and old drivers lack functions. Calls may hang in the kernel for ever: used in a child
// process that can be killed, by one thread.
#pragma once

#include <array>
#include <memory>
#include <string>

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

}  // namespace muster
