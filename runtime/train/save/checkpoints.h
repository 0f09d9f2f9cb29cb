// The checkpoints of a run: when one begins and in which mode, what became of it, when it has
// proved itself.
//
// A checkpoint that is due while the one before is still being written begins when that has ended.
// Rank 0 writes certificates, in a thread of its own; what they say is in certification.h. All
// methods are the training thread's; step_done and the saves are collective.
#pragma once

#include <chrono>
#include <functional>
#include <future>
#include <optional>
#include <string>

#include "runtime/train/save/background.h"
#include "runtime/train/save/certification.h"
#include "runtime/train/save/save.h"
#include "runtime/train/step/data_parallel_step.h"
#include "runtime/train/step/options.h"

namespace muster {

// What waits for a certificate.
struct CertificateWork {
  Certification waiting;
  std::optional<DueCertificate> due = {};

  void step_done(std::uint64_t step, LossWindow::Look look) {
    if (auto proved = waiting.step_done(step, look)) due = std::move(proved);
  }
};

class Checkpoints {
 public:
  using Say = std::function<void(const std::string& line)>;  // to a person, from rank 0

  // Everything passed by reference outlives this object. Collective.
  Checkpoints(const TrainOptions& options, SaveContext context, const FlatSpace& space,
              Communicator& ranks, Say say);
  ~Checkpoints();  // waits for what is being written

  // The state of `step` comes from this checkpoint, which has not been certified yet.
  void continued_from(const std::string& directory, std::uint64_t step);
  // From an earlier generation of the same run, which has saved that step.
  void take_over(CertificateWork work, std::optional<std::uint64_t> saved_step);
  // One is due that has not begun.
  void want_save() { due_ = true; }

  // For the other ranks, with the next step.
  std::string note();
  // Before weights and moments change.
  void wait_for_copy();
  // After each step; `look` is how it stood beside those before. A save begins only when training
  // goes on with these ranks.
  void step_done(const TrainingState& state, const StepOutcome& outcome, LossWindow::Look look,
                 bool goes_on = true);
  // Waits until the state as it is now is saved, or could not be.
  void save_now(const TrainingState& state);
  // As long as that; then it is still being saved.
  void save_within(const TrainingState& state, std::chrono::milliseconds limit);
  // That the training thread waited here since it was last asked.
  double take_waited_s();

  // Waits for the save under way, and begins none.
  void finish_saving();
  // Why no save can succeed any more: another run writes to the directory; empty: none does.
  const std::string& taken_over() const { return taken_over_; }
  bool is_saving() const { return background_ && background_->busy(); }

  // The other ranks may be gone: what has not been committed is not to be. Only the following
  // methods are called afterwards.
  void give_up();
  bool at_work() const;  // its threads are
  bool owes_save() const { return due_ || is_saving(); }
  const SaveContext& context() const { return context_; }
  const CertificateWork& certificates() const { return certificates_; }

 private:
  void begin_save(const TrainingState& state);
  void save_at_once(const TrainingState& state);
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
  CertificateWork certificates_;
  std::string certifying_;                // the checkpoint of the one being written
  std::future<std::string> certificate_;  // rank 0: what became of it
  std::string engine_told_;
  std::string taken_over_;
  std::optional<std::uint64_t> saved_step_;  // known to be tried
  bool due_ = false;
  double waited_s_ = 0;
};

}  // namespace muster
