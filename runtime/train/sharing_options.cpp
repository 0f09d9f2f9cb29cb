#include "runtime/train/sharing_options.h"

#include "runtime/train/start_error.h"

namespace muster {

void check_sharing_options(const TrainOptions& options, Communicator& ranks) {
  const BucketLimits& buckets = options.buckets;
  const std::string mine = "--zero " + std::to_string(static_cast<int>(options.zero)) +
                           " --bucket-bytes " + std::to_string(buckets.least_bytes) +
                           " --bucket-limit-bytes " + std::to_string(buckets.most_bytes);
  const std::vector<std::string> all = ranks.gather_texts(mine);
  for (std::size_t r = 1; r < all.size(); ++r) {
    if (all[r] == all[0]) continue;
    throw StartError("rank " + std::to_string(r) + " was started with " + all[r] +
                     ", rank 0 with " + all[0] + ": give all ranks the same options");
  }
  if (buckets.least_bytes > buckets.most_bytes) {
    throw StartError("--bucket-bytes: " + std::to_string(buckets.least_bytes) +
                     " is more than the " + std::to_string(buckets.most_bytes) +
                     " of --bucket-limit-bytes");
  }
}

}  // namespace muster
