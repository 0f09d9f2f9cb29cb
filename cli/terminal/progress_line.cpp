#include "cli/terminal/progress_line.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <vector>

#include "cli/terminal/escape.h"
#include "scheduler/text/duration.h"
#include "scheduler/text/number.h"

namespace muster {

namespace {

constexpr int widest_bar = 30;
constexpr int narrowest_bar = 5;

std::string bar(double share, int columns) {
  const int full = static_cast<int>(std::lround(share * columns));
  std::string out = "[";
  for (int i = 0; i < columns; ++i) out += i < full ? "=" : (i == full ? ">" : " ");
  return out + "]";
}

double share_done(const ProgressNumbers& numbers) {
  if (!numbers.step || !numbers.total_steps || *numbers.total_steps <= 0) return 0;
  const double share =
      static_cast<double>(*numbers.step) / static_cast<double>(*numbers.total_steps);
  return std::clamp(share, 0.0, 1.0);
}

// The parts of the line after the bar, the most telling ones first.
std::vector<std::string> parts(const ProgressNumbers& numbers,
                               std::optional<Milliseconds> time_left) {
  std::vector<std::string> out;
  if (numbers.step) {
    std::string steps = "step " + std::to_string(*numbers.step);
    if (numbers.total_steps) steps += "/" + std::to_string(*numbers.total_steps);
    out.push_back(steps);
  }
  if (numbers.loss) out.push_back("loss " + printed("%.4f", *numbers.loss));
  if (time_left) out.push_back("ETA " + elapsed_text(*time_left));
  if (numbers.tokens_per_s) out.push_back(count_text(*numbers.tokens_per_s) + " tokens/s");
  return out;
}

template <class Number>
void read_number(const nlohmann::json& object, const char* key, std::optional<Number>& value) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_number()) return;
  const double number = found->get<double>();
  if (!std::isfinite(number) || std::fabs(number) > 1e18) return;
  value = static_cast<Number>(number);
}

}  // namespace

void read_metrics_line(std::string_view json, ProgressNumbers& numbers) {
  const auto object = nlohmann::json::parse(json, nullptr, false);
  if (!object.is_object()) return;
  read_number(object, "step", numbers.step);
  read_number(object, "total_steps", numbers.total_steps);
  read_number(object, "loss", numbers.loss);
  read_number(object, "tokens_per_s", numbers.tokens_per_s);
}

void StepRate::saw(std::int64_t step, Time at) {
  if (!first_step_ || step < last_step_) {  // a resume goes back: measure from there
    first_step_ = step;
    first_at_ = at;
  }
  last_step_ = step;
  last_at_ = at;
}

std::optional<Milliseconds> StepRate::time_left(const ProgressNumbers& numbers) const {
  if (!first_step_ || !numbers.total_steps || last_step_ <= *first_step_) return std::nullopt;
  const double per_step = static_cast<double>((last_at_ - first_at_).count()) /
                          static_cast<double>(last_step_ - *first_step_);
  const double steps = static_cast<double>(*numbers.total_steps - last_step_);
  const double left_ms = std::clamp(per_step * steps, 0.0, 1e13);
  return Milliseconds{static_cast<std::int64_t>(left_ms)};
}

std::string progress_line(const std::string& label, const ProgressNumbers& numbers,
                          std::optional<Milliseconds> time_left, int width) {
  const int room = width - 1;
  const auto all = parts(numbers, time_left);
  if (all.empty()) return shortened(label, room);
  std::string line;
  for (const std::string& part : all) {
    const std::string longer = line.empty() ? part : line + "  " + part;
    if (text_width(longer) > room) break;
    line = longer;
  }
  if (line.empty()) return shortened(all.front(), room);
  const int bar_room = std::min(widest_bar, room - text_width(line) - 4);
  if (numbers.total_steps && bar_room >= narrowest_bar) {
    line = bar(share_done(numbers), bar_room) + "  " + line;
  }
  return line;
}

}  // namespace muster
