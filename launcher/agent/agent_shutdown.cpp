// Agent's part for a host that will be taken away: it tells the controller, which stops the ranks
// in time; a host that shuts down does not wait for that.
#include <algorithm>

#include "launcher/agent/agent.h"
#include "launcher/agent/node/log.h"

namespace muster {

namespace {

// Clouds that say nothing else give a host 30 s from SIGTERM to its end; systemd gives 90 s.
constexpr std::chrono::seconds shutdown_time{30};
// The controller knows the job's own signal and how long it may take: it goes first.
constexpr std::chrono::seconds controller_first{3};
// For what is killed then to be proven gone.
constexpr std::chrono::seconds proof_time{2};

}  // namespace

void Agent::look_for_notice() {
  const auto news = notices_.poll();
  if (!news) return;
  log_line(news->over ? "the host stays: " + news->source + " is gone"
                      : "the host will be taken away, by " + news->source);
  line_.send(*news);
}

// What shuts a host down tells every process at once. The second time it is meant.
void Agent::host_shuts_down() {
  if (ending_ || attempts_.empty()) return leave("was told to end by a signal");
  log_line("was told to end by a signal: its ranks may save first");
  const BootTime now = host_.clock.boot();
  ending_ = Ending{line_.is_open() ? now + controller_first : now, now + shutdown_time};
  notices_.shut_down(shutdown_time, "SIGTERM to its agent");
  if (const auto notice = notices_.state()) line_.send(*notice);
  go_on_ending();
}

// With a controller, until it has collected all and lets the attempts be forgotten.
void Agent::go_on_ending() {
  if (!ending_ || leaving_) return;
  const BootTime now = host_.clock.boot();
  const BootTime last = ending_->leaves_at - proof_time;
  const bool is_done = attempts_.empty() || (!runs_ranks() && !line_.is_open());
  if (is_done || now >= last) return leave("was told to end by a signal");
  if (now < ending_->stops_at) return;
  const auto left = std::chrono::duration_cast<Milliseconds>(last - now);
  for (const auto& [key, attempt] : attempts_) {
    if (attempt->is_stopping() || attempt->is_clean()) continue;
    attempt->stop(StopAttempt{key.job, key.attempt, "SIGTERM", left, left});
  }
}

}  // namespace muster
