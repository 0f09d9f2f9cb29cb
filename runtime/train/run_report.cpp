#include "runtime/train/run_report.h"

#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <utility>

#include "runtime/protocol/metrics.h"
#include "runtime/train/start_error.h"

namespace muster {
namespace {

double wall_time_s() {
  using namespace std::chrono;
  return duration<double>(system_clock::now().time_since_epoch()).count();
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

RunReport::RunReport(const TrainOptions& options, const RankVariables& variables,
                     const std::string& host, std::uint64_t first_step)
    : options_(options), first_step_(first_step), last_line_step_(first_step) {
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

void RunReport::step_done(std::uint64_t step, const StepOutcome& outcome, double checkpoint_s) {
  data_wait_s_ += outcome.data_wait_s;
  exchange_s_ += outcome.exchange_s;
  checkpoint_s_ += checkpoint_s;
  if (outcome.skipped) {
    say("warning: step " + std::to_string(step) + " was skipped: its gradient is not finite");
  }
  const bool due = step % options_.log_every == 0 || step == first_step_ + 1 ||
                   step == options_.steps || outcome.stop;
  if (!due) return;
  const Clock::time_point now = Clock::now();
  const double seconds = std::chrono::duration<double>(now - last_line_).count();
  const auto steps = static_cast<double>(step - last_line_step_);
  const auto tokens_per_step = options_.batch * options_.shape.context;
  const double rate = seconds > 0 ? steps * static_cast<double>(tokens_per_step) / seconds : 0;
  last_line_ = now;
  last_line_step_ = step;

  char line[200];
  std::snprintf(line, sizeof line, "step %llu/%llu loss %.4f lr %.1e %.0f tok/s",
                static_cast<unsigned long long>(step),
                static_cast<unsigned long long>(options_.steps), outcome.loss, outcome.lr, rate);
  say(line);
  const std::string metrics = format_metrics_line(
      {step, options_.steps, outcome.loss, outcome.lr, outcome.gradient_norm,
       step * tokens_per_step, rate, seconds * 1000 / steps,
       std::exchange(data_wait_s_, 0) * 1000 / steps, std::exchange(exchange_s_, 0) * 1000 / steps,
       std::exchange(checkpoint_s_, 0) * 1000 / steps});
  for (std::ofstream& file : metrics_) {
    file.clear();  // after a full disk this line may fit again
    file << metrics << std::flush;
  }
  const Scalar scalars[] = {{"loss", static_cast<float>(outcome.loss)},
                            {"lr", static_cast<float>(outcome.lr)},
                            {"grad_norm", static_cast<float>(outcome.gradient_norm)},
                            {"tokens_per_s", static_cast<float>(rate)}};
  events_->write(wall_time_s(), step, scalars);
}

}  // namespace muster
