#include "health/active/gpu/near_processors.h"

#include <cuda_runtime_api.h>
#include <sched.h>

#include <array>
#include <fstream>
#include <string>

#include "health/active/processor_list.h"
#include "scheduler/text/text.h"

namespace muster {

void stay_near_gpu(int gpu) {
  std::array<char, 32> address{};
  if (cudaDeviceGetPCIBusId(address.data(), address.size(), gpu) != cudaSuccess) {
    cudaGetLastError();
    return;
  }
  std::ifstream file("/sys/bus/pci/devices/" + lower_case(address.data()) + "/local_cpulist");
  std::string list;
  std::getline(file, list);
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int processor : read_processor_list(list)) {
    if (processor < CPU_SETSIZE) CPU_SET(processor, &set);
  }
  if (CPU_COUNT(&set) > 0) sched_setaffinity(0, sizeof set, &set);
}

}  // namespace muster
