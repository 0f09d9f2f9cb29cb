// Removes blobs that nobody needs. Others may use the store meanwhile: whoever asks for a blob
// marks it as used (BlobStore::contains), and one that was marked since it was looked at is put
// back. One that a killed sweep had taken out is put back by the next who opens the store.
#pragma once

#include <ctime>
#include <filesystem>
#include <functional>
#include <string>

#include "scheduler/model/result.h"
#include "scheduler/model/retention.h"

namespace muster {

struct BlobSweep {
  std::function<bool(const std::string& hash)> is_needed;
  std::time_t unused_since = 0;  // one that was used later stays
  bool dry_run = false;
};

// Blobs that a job's input on this machine is linked to stay too.
Result<Removed> sweep_blobs(const std::filesystem::path& root, const BlobSweep& sweep);

void put_back_swept(const std::filesystem::path& root);

}  // namespace muster
