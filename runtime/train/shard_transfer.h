// Bringing shards to rank 0's node where the checkpoint directory is not shared between nodes.
//
// Rank 0 looks which shards it cannot see and receives those by broadcast, 8 MiB at a time. A shard
// that arrives damaged or not at all is found when the manifest is committed and read back.
// Collective.
#pragma once

#include <string>

#include "runtime/checkpoint/manifest.h"
#include "runtime/communicator/communicator.h"

namespace muster {

// True when something had to be fetched.
bool fetch_missing_shards(const std::string& path, const Manifest& manifest, Communicator& ranks);

}  // namespace muster
