// When a checkpoint has proved itself: training went on long enough after it without a doubt.
//
//   committed(step) ── K steps, all of them usual ──▶ certified
//                   └─ one that is not finite, or stands out ──▶ never
//
// K = max(20, steps between two checkpoints). The doubt about a step falls on every checkpoint that
// waits, for each of them may carry what made it so. Where checkpoints follow each other quickly,
// the oldest that waits is to be spared by retention, and the newest waits beside it: those between
// would be gone before their time. Pure: the caller writes the certificates.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/train/step/loss_window.h"

namespace muster {

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

 private:
  struct Waiting {
    std::string directory;
    std::uint64_t step = 0;
  };
  std::uint64_t steps_;
  std::uint64_t last_doubt_ = 0;  // a step, 0: none
  std::vector<Waiting> waiting_;  // the oldest, the newest
};

}  // namespace muster
