// A run whose ranks come and go: MUSTER_MEMBERS names the file (protocol/membership.h) by which the
// launcher says who takes part.
//
//   alone      opens the data, takes up the checkpoint that it is told of, waits to be in the file
//   epoch      its members meet at the first one and connect; who has not the newest state gets it;
//              steps are taken
//   its end    after a step, once all have seen the same newer epoch, or one leaves after SIGTERM;
//              or in a step, as a rank is lost: the step is dropped, and taken again in the next
//              epoch, where a rank that is gone for good is waited for until one comes without it
//
// The launcher decides, as it is there already, sees dead ranks at once, and cannot disagree with
// itself; ranks only follow, also when it keeps a rank that one of them believes lost. Weights and
// moments are on every rank (--zero 0), and a step changes them only once it has all that it needs
// from the others: any survivor has the whole state of the last step that it finished, and one that
// is a step ahead gives it to the others. So losing any ranks but the last costs no more than the
// step under way. The leaves of the batch are fixed, as with --deterministic: the numbers are those
// of a run whose ranks never change. Checkpoints are those of a fixed run, written by all members
// of an epoch (checkpoints.h); a rank that gets SIGTERM trains on for a moment, to see
// whether all do and the run is to end.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "runtime/protocol/environment.h"
#include "runtime/protocol/membership.h"
#include "runtime/train/step/options.h"

namespace muster {

// The exit code: 0 when all steps are done or this rank is not needed any more, 1 when training
// diverged, 143 after SIGTERM, upon which this rank leaves and the others go on. Throws StartError.
// `before_steps` is called before the first step.
int run_elastic_training(const TrainOptions& options, const RankVariables& variables,
                         const std::function<void()>& before_steps);

// What the membership file of an elastic job says now. One thread; a look costs one stat(2) while
// the file stays the same.
class MemberWatch {
 public:
  explicit MemberWatch(std::string path) : path_(std::move(path)) {}

  // The highest epoch that was ever seen; epoch 0 without members before the first.
  const EpochMembers& newest();

 private:
  std::string path_;
  EpochMembers newest_;
  std::uint64_t inode_ = 0;
  std::int64_t changed_ns_ = 0;
};

}  // namespace muster
