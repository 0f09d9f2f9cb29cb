// What the programs that reduce over NCCL ask of it alike. Where it is built with NCCL only.
#pragma once

#include <nccl.h>

#include <cstddef>
#include <string>

#include "health/active/gpu/cuda_resource.h"
#include "health/active/gpu/reduced_memory.h"

namespace muster {

// Throws GpuFailure. Communicators that do not block say of what has only begun that it is in
// progress; others never do.
inline void require_nccl(ncclResult_t result, const char* call) {
  if (result == ncclSuccess || result == ncclInProgress) return;
  throw GpuFailure(std::string(call) + ": " + ncclGetErrorString(result));
}

// Begins one sum of the first so many bytes of each GPU, over all ranks. `communicators.of(gpu)` is
// the GPU's own.
template <class Communicators>
void begin_sum(const ReducedMemory& memory, const Communicators& communicators, std::size_t bytes) {
  require_nccl(ncclGroupStart(), "ncclGroupStart");
  for (std::size_t gpu = 0; gpu < memory.gpus(); ++gpu) {
    const ReducingGpu& own = memory.of(gpu);
    require_nccl(ncclAllReduce(own.send.at(), own.receive.at(), bytes / sizeof(float), ncclFloat,
                               ncclSum, communicators.of(gpu), own.stream.get()),
                 "ncclAllReduce");
  }
  require_nccl(ncclGroupEnd(), "ncclGroupEnd");
}

}  // namespace muster
