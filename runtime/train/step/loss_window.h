// What losses and gradient norms have been lately, and how far a new one stands out.
//
// A loss is compared with the median of the last 200 in units of their median absolute deviation
// (times 1.4826, which is the standard deviation of a normal distribution); a norm with its median.
// Fewer than 20 say nothing. One spike hardly moves a median; a level that stays becomes the usual
// one. Pure.
#pragma once

#include <cstddef>
#include <deque>
#include <optional>

namespace muster {

inline constexpr std::size_t loss_window_steps = 200;
inline constexpr std::size_t loss_window_least = 20;
inline constexpr double doubtful_loss_z = 6;
inline constexpr double doubtful_norm_ratio = 10;

class LossWindow {
 public:
  // How a step that is not in the window yet looks beside it.
  enum class Look { usual, stands_out, not_finite };
  Look look(double loss, double gradient_norm) const;
  // Takes the step in, unless it is not finite.
  void add(double loss, double gradient_norm);

  // The median of the latest 20 losses; nothing while there are fewer.
  std::optional<double> recent_loss() const;
  // 0 while the window says nothing; a loss below the median counts as negative.
  double loss_z(double loss) const;
  double norm_ratio(double gradient_norm) const;

 private:
  std::deque<double> losses_;
  std::deque<double> norms_;
};

}  // namespace muster
