// What is asked of a node's sources at one time, and what they said. Plain data.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "health/model/gpu_readings.h"
#include "health/model/source_files.h"
#include "health/nvml/reader.h"

namespace muster {

struct NodeReadRequest {
  std::string root = "/";               // all files are below it
  std::vector<std::string> sources;     // as read_files takes them; what may hang last
  std::optional<GpuReadingScope> gpus;  // nothing: the driver's library is not asked
  std::string nvml_library;             // empty: what the environment names, else the usual one
};

struct NodeReadings {
  SourceFiles files;
  // Nothing: not asked. Incomplete: the driver did not answer in calling(), or the helper died in
  // it, as stopped() says.
  std::optional<GpuReadings> gpus;
  std::chrono::milliseconds files_took{0};
  std::chrono::milliseconds gpus_took{0};
};

}  // namespace muster
