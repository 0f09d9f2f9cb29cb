// How long muster keeps what nobody has asked it to remove. Read from the user's retention.yml; an
// agent is told in the greeting. A checkpoint is never removed, whatever is set here.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "scheduler/text/clock.h"
#include "scheduler/text/fields.h"

namespace muster {

constexpr Milliseconds days(int count) {
  return Milliseconds{count * 24LL * 3'600'000};
}

struct RetentionLimits {
  using Keep = std::optional<Milliseconds>;  // absent: for ever

  // Records of a job that has ended: then a summary is left, and the job can be resumed no more.
  Keep journal{};
  // Logs and outputs of a job that has ended, on the machine of the state directory.
  Keep job_folders{};
  // Files that no job needs and nobody has used: here, and on nodes, where they save a transfer.
  Keep blobs{};
  // Builds of muster on nodes that nobody has started.
  Keep binaries{};
  // Folders on nodes of agents whose controller has not come back.
  Keep run_folders{};

  friend bool operator==(const RetentionLimits&, const RetentionLimits&) = default;

  MUSTER_FIELDS(journal, job_folders, blobs, binaries, run_folders)
};

inline constexpr RetentionLimits usual_retention{
    .journal = days(90), .blobs = days(3), .binaries = days(3), .run_folders = days(30)};

// What of muster's own was removed, or would be.
struct Removed {
  std::string what;
  std::int64_t count = 0;
  std::int64_t bytes = 0;
};

}  // namespace muster
