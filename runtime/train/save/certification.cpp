#include "runtime/train/save/certification.h"

#include <algorithm>

namespace muster {

Certification::Certification(std::uint64_t checkpoint_every)
    : steps_(std::max(least_certification_steps, checkpoint_every)) {}

void Certification::committed(const std::string& directory, std::uint64_t step) {
  if (step < last_doubt_) return;
  if (waiting_.size() > 1) waiting_.pop_back();
  waiting_.push_back({directory, step});
}

std::optional<std::string> Certification::oldest() const {
  if (waiting_.empty()) return std::nullopt;
  return waiting_.front().directory;
}

std::optional<DueCertificate> Certification::step_done(std::uint64_t step, LossWindow::Look look) {
  if (look != LossWindow::Look::usual) {
    last_doubt_ = step;
    waiting_.clear();
    return std::nullopt;
  }
  std::optional<DueCertificate> due;
  while (!waiting_.empty() && waiting_.front().step + steps_ <= step) {
    due = {waiting_.front().directory, waiting_.front().step, step};
    waiting_.erase(waiting_.begin());
  }
  return due;
}

}  // namespace muster
