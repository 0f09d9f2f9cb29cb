#include "runtime/train/run_report.h"

#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <filesystem>
#include <utility>

#include "runtime/protocol/number_text.h"
#include "runtime/protocol/start_error.h"

namespace muster {
namespace {

std::string json_text(std::uint64_t value) {
  return std::to_string(value);
}
std::string json_text(std::optional<double> value) {
  return value && std::isfinite(*value) ? printed("%.9g", *value) : "null";
}
std::string json_text(const std::string& words) {
  return "\"" + words + "\"";
}

double wall_time_s() {
  using namespace std::chrono;
  return duration<double>(system_clock::now().time_since_epoch()).count();
}

std::string percent(double share) {
  return printed("%.1f %%", share * 100);
}

// A line that a killed run left half written is ended, so that the next one stands alone.
std::ofstream open_metrics(const std::string& path) {
  std::ifstream before(path, std::ios::binary | std::ios::ate);
  char last = '\n';
  if (before && before.tellg() > 0) before.seekg(-1, std::ios::end).get(last);
  std::ofstream file(path, std::ios::app);
  if (last != '\n') file << '\n';
  return file;
}

}  // namespace

std::string format_metrics_line(const MetricsLine& line) {
  std::string text;
  MetricsLine::fields(line, [&](const char* name, const auto& value) {
    text += (text.empty() ? "{" : ",") + json_text(std::string(name)) + ":" + json_text(value);
  });
  return text + "}\n";
}

RunReport::RunReport(const TrainOptions& options, const RankVariables& variables,
                     const std::string& host, std::uint64_t first_step, PeakRate peak)
    : options_(options),
      flops_(flops_per_token(options.shape)),
      peak_(std::move(peak)),
      first_step_(first_step),
      last_step_(first_step),
      last_line_step_(first_step) {
  const std::string events = options.out + "/tensorboard";
  std::error_code code;
  std::filesystem::create_directories(events, code);
  if (code) throw StartError("--out: " + events + " cannot be created: " + code.message());
  metrics_.push_back(open_metrics(options.out + "/metrics.jsonl"));
  if (!metrics_.back()) throw StartError("--out: cannot write " + options.out + "/metrics.jsonl");
  if (!variables.metrics_path.empty()) {
    metrics_.push_back(open_metrics(variables.metrics_path));
    if (!metrics_.back()) say("warning: MUSTER_METRICS: cannot write " + variables.metrics_path);
  }
  events_ = std::make_unique<EventWriter>(events, wall_time_s(), host, ::getpid(), first_step + 1);
}

void RunReport::say(const std::string& line) {
  std::printf("%s\n", line.c_str());
  std::fflush(stdout);
}

TimeSplit RunReport::since_last_line(Clock::time_point now) {
  TimeSplit split = std::exchange(split_, {});
  split.total_s = std::chrono::duration<double>(now - last_line_).count();
  whole_ += split;
  last_line_ = now;
  return split;
}

void RunReport::step_done(std::uint64_t step, const StepOutcome& outcome, double checkpoint_s) {
  split_ += {0, outcome.exchange_s, outcome.data_wait_s, checkpoint_s};
  last_step_ = step;
  if (outcome.skipped) {
    say("warning: step " + std::to_string(step) + " was skipped: its gradient is not finite");
  }
  const bool due = step % options_.log_every == 0 || step == first_step_ + 1 ||
                   step == options_.steps || outcome.stop;
  if (!due) return;
  const TimeSplit split = since_last_line(Clock::now());
  const std::uint64_t steps = step - last_line_step_;
  const double rate = split.total_s > 0 ? tokens_in(steps) / split.total_s : 0;
  last_line_step_ = step;

  say(printed("step %llu/%llu loss %.4f lr %.1e %.0f tok/s", static_cast<unsigned long long>(step),
              static_cast<unsigned long long>(options_.steps), outcome.loss, outcome.lr, rate));
  const double each = 1 / static_cast<double>(steps);
  write_metrics(step, outcome,
                {split.total_s * each, split.communication_wait_s * each, split.data_wait_s * each,
                 split.checkpoint_stall_s * each},
                rate);
}

void RunReport::write_metrics(std::uint64_t step, const StepOutcome& outcome, const TimeSplit& mean,
                              double rate) {
  const Utilisation use = utilisation_of(flops_, rate, peak_.flops, options_.model.recompute);
  const MetricsLine line{.step = step,
                         .total_steps = options_.steps,
                         .loss = outcome.loss,
                         .lr = outcome.lr,
                         .grad_norm = outcome.gradient_norm,
                         .tokens = step * options_.batch * options_.shape.context,
                         .tokens_per_s = rate,
                         .step_ms = mean.total_s * 1000,
                         .compute_ms = mean.compute_s() * 1000,
                         .data_wait_ms = mean.data_wait_s * 1000,
                         .exchange_ms = mean.communication_wait_s * 1000,
                         .checkpoint_ms = mean.checkpoint_stall_s * 1000,
                         .tflops = use.tflops,
                         .mfu_a = use.mfu_a,
                         .mfu_b = use.mfu_b,
                         .hfu = use.hfu,
                         .peak_tflops = peak_.flops / 1e12,
                         .peak_origin = peak_.origin};
  const std::string metrics = format_metrics_line(line);
  for (std::ofstream& file : metrics_) {
    file.clear();  // after a full disk this line may fit again
    file << metrics << std::flush;
  }
  std::vector<Scalar> scalars;
  MetricsLine::fields(line, [&](const std::string& name, const auto& value) {
    if constexpr (std::is_same_v<decltype(value), const double&>) {
      if (name == "peak_tflops") return;
      scalars.push_back({(name.ends_with("_ms") ? "time/" : "") + name, static_cast<float>(value)});
    }
  });
  if (line.hfu) scalars.push_back({"hfu", static_cast<float>(*line.hfu)});
  events_->write(wall_time_s(), step, scalars);
}

void RunReport::end(double checkpoint_s) {
  split_ += {0, 0, 0, checkpoint_s};
  since_last_line(Clock::now());
  if (last_step_ == first_step_ || whole_.total_s <= 0) return;
  const double rate = tokens_in(last_step_ - first_step_) / whole_.total_s;
  const Utilisation use = utilisation_of(flops_, rate, peak_.flops, options_.model.recompute);
  std::string line = printed("%llu steps in %.1f s: %.0f tok/s, %.4g TFLOP/s",
                             static_cast<unsigned long long>(last_step_ - first_step_),
                             whole_.total_s, rate, use.tflops);
  line += ", MFU " + percent(use.mfu_a) + " (A) " + percent(use.mfu_b) + " (B)";
  if (use.hfu) line += ", HFU " + percent(*use.hfu);
  say(line + printed(" of a peak of %.4g TFLOP/s, ", peak_.flops / 1e12) + peak_.origin);
  const auto part = [&](double seconds) { return percent(seconds / whole_.total_s); };
  say("time on rank 0: compute " + part(whole_.compute_s()) + ", communication wait " +
      part(whole_.communication_wait_s) + ", data wait " + part(whole_.data_wait_s) +
      ", checkpoint stall " + part(whole_.checkpoint_stall_s));
}

}  // namespace muster
