// Makes calls to the library one at a time, each announced before it is made, and turns what comes
// back into readings. Knows how calls go, not what is asked.
#pragma once

#include <string>
#include <utility>

#include "health/model/gpu_readings.h"
#include "health/nvml/api.h"

namespace muster {

class NvmlAsker {
 public:
  // `prefix` goes before all keys and calls: "gpu3."; empty: the node.
  NvmlAsker(const GpuReadingSink& sink, std::string prefix)
      : sink_(sink), prefix_(std::move(prefix)) {}

  // A function that the library lacks is "not found".
  template <class Function, class... Arguments>
  NvmlReturn call(const char* symbol, Function function, Arguments... arguments) {
    if (function == nullptr) return nvml_function_not_found;
    sink_.calling(prefix_ + symbol);
    const NvmlReturn rc = function(arguments...);
    is_lost_ = is_lost_ || rc == nvml_gpu_is_lost;
    return rc;
  }

  void tell(const std::string& key, NvmlReturn rc, std::string value) {
    sink_.got(prefix_ + key,
              rc == nvml_success ? GpuReading{0, std::move(value)} : GpuReading{rc, std::string()});
  }
  template <class Number>
  void tell_number(const std::string& key, NvmlReturn rc, Number value) {
    tell(key, rc, std::to_string(value));
  }

  bool is_lost() const { return is_lost_; }

 private:
  const GpuReadingSink& sink_;
  std::string prefix_;
  bool is_lost_ = false;
};

}  // namespace muster
