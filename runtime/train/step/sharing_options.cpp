#include "runtime/train/step/sharing_options.h"

#include "runtime/protocol/start_error.h"
#include "runtime/train/agreed_options.h"

namespace muster {

void check_sharing_options(const TrainOptions& options, Communicator& ranks) {
  check_agreed_options(options, ranks);
  const BucketLimits& buckets = options.buckets;
  if (buckets.least_bytes > buckets.most_bytes) {
    throw StartError("--bucket-bytes: " + std::to_string(buckets.least_bytes) +
                     " is more than the " + std::to_string(buckets.most_bytes) +
                     " of --bucket-limit-bytes");
  }
}

}  // namespace muster
