// The checkpoints of a run: when one begins and in which mode, what became of it, when it has
// proved itself.
//
// A checkpoint that is due while the one before is still being written begins when that has ended.
// Rank 0 writes certificates, in a thread of its own; what they say is Certification. All
// methods are the training thread's; step_done and the saves are collective.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <future>
#include <optional>
#include <string>
#include <vector>

#include "runtime/train/save/background.h"
#include "runtime/train/save/save.h"
#include "runtime/train/step/data_parallel_step.h"
#include "runtime/train/step/guard.h"
#include "runtime/train/step/options.h"

namespace muster {

// When a checkpoint has proved itself: training went on long enough after it without a doubt.
//
//   committed(step) ── K steps, all of them usual ──▶ certified
//                   └─ one that is not finite, or stands out ──▶ never
//
// K = max(20, steps between two checkpoints). The doubt about a step falls on every checkpoint that
// waits, for each of them may carry what made it so. Where checkpoints follow each other quickly,
// the oldest that waits is to be spared by retention, and the newest waits beside it: those between
// would be gone before their time. Pure: the caller writes the certificates.

inline constexpr std::uint64_t least_certification_steps = 20;

struct DueCertificate {
  std::string directory;
  std::uint64_t step = 0;     // of the checkpoint
  std::uint64_t at_step = 0;  // how far training had come without a doubt
};

class Certification {
 public:
  explicit Certification(std::uint64_t checkpoint_every);

  // The checkpoint of `step`, which is SANE, waits from now on. A step that followed it before its
  // commit was known counts.
  void committed(const std::string& directory, std::uint64_t step);
  // The directory of the oldest that waits.
  std::optional<std::string> oldest() const;
  // After step `step`, which looked like this. The newest checkpoint that has proved itself now.
  std::optional<DueCertificate> step_done(std::uint64_t step, LossWindow::Look look);
  // The newest that has ever proved itself, until somebody has begun its certificate.
  std::optional<DueCertificate> due;

 private:
  struct Waiting {
    std::string directory;
    std::uint64_t step = 0;
  };
  std::uint64_t steps_;
  std::uint64_t last_doubt_ = 0;  // a step, 0: none
  std::vector<Waiting> waiting_;  // the oldest, the newest
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
  void take_over(Certification work, std::optional<std::uint64_t> saved_step);
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
  double take_waited_s() { return std::exchange(waited_s_, 0); }

  // Waits for the save under way, and begins none.
  void finish_saving() {
    if (is_saving()) tell(background_->finish());
  }
  // Why no save can succeed any more: another run writes to the directory; empty: none does.
  const std::string& taken_over() const { return taken_over_; }
  bool is_saving() const { return background_ && background_->busy(); }

  // The other ranks may be gone: what has not been committed is not to be. Only the following
  // methods are called afterwards.
  void give_up() {
    if (background_) background_->give_up();
  }
  bool at_work() const {  // its threads are
    return (certificate_.valid() && !is_ready(certificate_)) ||
           (background_ && background_->at_work());
  }
  bool owes_save() const { return due_ || is_saving(); }
  const SaveContext& context() const { return context_; }
  const Certification& certificates() const { return certificates_; }

 private:
  void begin_save(const TrainingState& state);
  void save_at_once(const TrainingState& state);
  void tell(const SaveOutcome& outcome);
  void report_engine();
  void tend_certificates();
  void spare_candidate();

  const TrainOptions& options_;
  SaveContext context_;
  const FlatSpace& space_;
  Communicator& ranks_;
  const Say say_;
  std::optional<BackgroundSave> background_;  // none: saves are blocking
  Certification certificates_;
  std::string certifying_;                // the checkpoint of the one being written
  std::future<std::string> certificate_;  // rank 0: what became of it
  std::string engine_told_;
  std::string taken_over_;
  std::optional<std::uint64_t> saved_step_;  // known to be tried
  bool due_ = false;
  double waited_s_ = 0;
};

}  // namespace muster
