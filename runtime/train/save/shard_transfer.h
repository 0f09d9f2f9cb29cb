// Bringing shards to rank 0's node where the checkpoint directory is not shared between nodes.
//
// Rank 0 looks which shards it cannot see and receives those by broadcast, chunk by chunk,
// comparing each chunk with its checksum. A shard gets its name only when it is whole and durable,
// so that a file which rank 0 merely does not see yet is never overwritten. Collective.
#pragma once

#include <string>

#include "runtime/checkpoint/manifest.h"
#include "runtime/communicator/communicator.h"

namespace muster {

// How many shards had to be fetched, or why one could not be; the same on every rank.
Checked<std::size_t> fetch_missing_shards(const std::string& path, const Manifest& manifest,
                                          Communicator& ranks);

}  // namespace muster
