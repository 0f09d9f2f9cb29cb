// What one GPU is asked, by theme. Each function makes the calls of its theme and tells the
// answers.
#pragma once

#include "health/nvml/asker.h"
#include "health/nvml/library.h"
#include "health/nvml/reader.h"

namespace muster {

// A GPU that answers, and how.
struct NvmlGpu {
  const NvmlFunctions& nvml;
  NvmlDevice device;
  NvmlAsker& asker;
};

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
