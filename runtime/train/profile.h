// --profile: the spans of a few steps of all ranks, in one file.
//
// Owned by the run. At the start the ranks compare their clocks; after the last step that is
// wanted, or at the end of a shorter run, rank 0 gets all spans and writes them. A run that is
// killed before has no profile. All methods are the training thread's, and collective.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/communicator/clock_offset.h"
#include "runtime/communicator/traced.h"
#include "runtime/report/trace.h"
#include "runtime/train/step/options.h"

namespace muster {

class Profile {
 public:
  // `finished`: steps before the first one of this run. Throws StartError, the same on all ranks,
  // when the file could not be created.
  Profile(const TrainOptions& options, const std::string& host, std::uint64_t finished,
          Communicator& ranks);

  Trace& trace() { return trace_; }
  // To be used by the steps.
  TracedCommunicator& ranks() { return traced_; }

  void begin_step(std::uint64_t finished);
  // What became of it, for a person, when this was the last step; otherwise empty.
  std::string end_step(std::uint64_t finished);
  // Nothing when it is written already.
  std::string end();

 private:
  std::string write();

  std::string path_;
  std::string host_;
  std::uint64_t first_, last_;  // steps, counted from 1
  Communicator& ranks_;
  Trace trace_;
  TracedCommunicator traced_;
  std::vector<RankClock> offsets_;
  bool is_written_ = false;
};

}  // namespace muster
