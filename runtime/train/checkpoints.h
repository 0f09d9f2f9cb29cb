// The checkpoints of a run: when one begins and in which mode, what became of it, when it has
// proved itself.
//
// A checkpoint that is due while the one before is still being written begins when that has ended.
// Rank 0 writes certificates, in a thread of its own; what they say is in certification.h. All
// methods are the training thread's; step_done and save_now are collective.
#pragma once

#include <functional>
#include <future>
#include <optional>
#include <string>

#include "runtime/train/background_save.h"
#include "runtime/train/certification.h"
#include "runtime/train/data_parallel_step.h"
#include "runtime/train/options.h"
#include "runtime/train/save.h"

namespace muster {

class Checkpoints {
 public:
  using Say = std::function<void(const std::string& line)>;  // to a person, from rank 0

  // Everything passed by reference outlives this object. Collective.
  Checkpoints(const TrainOptions& options, SaveContext context, const FlatSpace& space,
              Communicator& ranks, Say say);
  ~Checkpoints();  // waits for what is being written

  // The state of `step` comes from this checkpoint, which has not been certified yet.
  void continued_from(const std::string& directory, std::uint64_t step);

  // For the other ranks, with the next step.
  std::string note();
  // Before weights and moments change.
  void wait_for_copy();
  // After each step; `look` is how it stood beside those before.
  void step_done(const TrainingState& state, const StepOutcome& outcome, LossWindow::Look look);
  // Waits until the state as it is now is saved, or could not be.
  void save_now(const TrainingState& state);
  // That the training thread waited here since it was last asked.
  double take_waited_s();

 private:
  void tell(const SaveOutcome& outcome);
  void tell_engine();
  void tend_certificates();
  void spare_candidate();

  const TrainOptions& options_;
  SaveContext context_;
  const FlatSpace& space_;
  Communicator& ranks_;
  const Say say_;
  std::optional<BackgroundSave> background_;  // none: saves are blocking
  Certification certification_;
  std::optional<DueCertificate> due_certificate_;
  std::string certifying_;                // the checkpoint of the one being written
  std::future<std::string> certificate_;  // rank 0: what became of it
  std::string engine_told_;
  std::optional<std::uint64_t> saved_step_;  // known to be tried
  bool due_ = false;
  double waited_s_ = 0;
};

}  // namespace muster
