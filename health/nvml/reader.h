// Asks the driver everything that the checks judge and hands each answer on at once, with the call
// before it: whoever runs this in a child process keeps what came before a call that hangs, and
// knows which call it was. One thread; makes only calls that read.
#pragma once

#include <string>
#include <utility>

#include "health/model/gpu_readings.h"
#include "health/nvml/api.h"
#include "health/nvml/library.h"

namespace muster {

// What costs milliseconds and more is asked only when wanted.
struct GpuReadingScope {
  bool processes = true;  // 0.1 to 4.5 ms a GPU under a lock that running ranks need
  bool inforom = true;    // reads flash memory
};

// The readings of all GPUs; begins with nvmlInit and ends with nvmlShutdown. A GPU that is lost is
// asked no more.
void read_gpus(const NvmlLibrary& nvml, const GpuReadingScope& scope, const GpuReadingSink& sink);

// Makes calls to the library one at a time, each announced before it is made, and turns what comes
// back into readings. Knows how calls go, not what is asked.
class NvmlAsker {
 public:
  // `prefix` goes before all keys and calls: "gpu3."; empty: the node.
  NvmlAsker(const NvmlLibrary& nvml, const GpuReadingSink& sink, std::string prefix)
      : nvml_(nvml), sink_(sink), prefix_(std::move(prefix)) {}

  bool has(const NvmlCall& what) const { return nvml_.has(what); }
  template <class... Arguments>
  NvmlReturn call(const NvmlCall& what, Arguments... arguments) {
    if (!has(what)) return nvml_function_not_found;
    sink_.calling(prefix_ + what.name);
    const NvmlReturn rc = nvml_.call(what, arguments...);
    is_lost_ = is_lost_ || rc == nvml_gpu_is_lost;
    return rc;
  }

  void tell(const std::string& key, NvmlReturn rc, std::string value) {
    sink_.got(prefix_ + key,
              rc == nvml_success ? GpuReading{0, std::move(value)} : GpuReading{rc, std::string()});
  }
  template <class Number>
  void report_number(const std::string& key, NvmlReturn rc, Number value) {
    tell(key, rc, std::to_string(value));
  }

  bool is_lost() const { return is_lost_; }

 private:
  const NvmlLibrary& nvml_;
  const GpuReadingSink& sink_;
  std::string prefix_;
  bool is_lost_ = false;
};

// A GPU that answers, and how.
struct NvmlGpu {
  NvmlDevice device;
  NvmlAsker& asker;

  template <class... Arguments>
  NvmlReturn call(const NvmlCall& what, Arguments... arguments) const {
    return asker.call(what, device, arguments...);
  }
  // A call that writes one number, behind its other arguments.
  template <class Number = unsigned, class... Arguments>
  NvmlReturn ask_number(const std::string& key, const NvmlCall& what,
                        Arguments... arguments) const {
    Number value{};
    const NvmlReturn rc = call(what, arguments..., &value);
    asker.report_number(key, rc, value);
    return rc;
  }
  void ask_pair(const char* first_key, const char* second_key, const NvmlCall& what) const {
    unsigned first = 0;
    unsigned second = 0;
    const NvmlReturn rc = call(what, &first, &second);
    asker.report_number(first_key, rc, first);
    asker.report_number(second_key, rc, second);
  }
};

// What one GPU is asked, by theme. Each function makes the calls of its theme and tells the
// answers.
void ask_identity(const NvmlGpu& gpu);
void ask_memory(const NvmlGpu& gpu);
void ask_row_repairs(const NvmlGpu& gpu);
void ask_fields(const NvmlGpu& gpu);
void ask_links(const NvmlGpu& gpu);
void ask_fabric(const NvmlGpu& gpu);
void ask_state(const NvmlGpu& gpu);
void ask_temperatures(const NvmlGpu& gpu);
void ask_processes(const NvmlGpu& gpu);

}  // namespace muster
