#include "launcher/controller/agents/deliveries.h"

#include <algorithm>
#include <set>

#include "scheduler/state/lookup.h"
#include "scheduler/text/text.h"

namespace muster {

namespace {

// A hundred terabytes at a gigabyte a second; one that hangs ends by rclone's own limits.
constexpr Milliseconds delivery_limit{28 * 3600 * 1000};
constexpr std::size_t error_bytes = 1000;

std::string error_of(const CommandEnded& ended) {
  if (ended.error.empty() && ended.status.ok()) return {};
  std::vector<std::string> parts = ended.lines;
  if (!ended.error.empty()) parts.insert(parts.begin(), ended.error);
  const std::string error = joined(parts, "; ");
  return error.empty() ? "the process that copies its outputs was killed"
                       : shortened(error, error_bytes);
}

}  // namespace

OutputDeliveries::OutputDeliveries(Home home, std::string binary, const State& state,
                                   RunCommand run, Observer& observer)
    : home_(std::move(home)),
      binary_(std::move(binary)),
      state_(state),
      run_(std::move(run)),
      observer_(observer) {}

void OutputDeliveries::follow() {
  std::map<Key, std::function<void()>> before = std::exchange(running_, {});
  for (const auto& [id, job] : state_.jobs) {
    const Attempt* attempt = active_attempt(job);
    const auto* phase = attempt == nullptr ? nullptr : phase_of<Collecting>(*attempt);
    if (phase == nullptr || !phase->delivers || phase->error) continue;
    const Key key{id, attempt->id};
    if (auto running = before.extract(key)) {
      running_.insert(std::move(running));
    } else {
      begin(key, *attempt);
    }
  }
  for (const auto& [key, kill] : before) kill();
}

// One that has ended stays in `running_` until State says so.
void OutputDeliveries::begin(const Key& key, const Attempt& attempt) {
  if (!run_) return observer_.observe(OutputsDelivered{key.first, key.second, {}});
  const auto& why = phase_of<Collecting>(attempt)->why;
  // Half an output is no version of anything.
  const bool is_whole = std::ranges::all_of(attempt.nodes, [](const AttemptNode& node) {
    return is_released(node) || !has_started(node) || has_delivered(node);
  });
  const bool is_over = is_whole && why && why->reason == StopReason::finished;
  std::vector<std::string> words{binary_,         "agent",
                                 "upload",        home_.root.string(),
                                 key.first.value, is_over ? "finished" : "goes-on"};
  std::set<std::string> streamed;
  for (const AttemptNode& node : attempt.nodes) {
    if (is_over && node.staged) {
      streamed.insert(node.staged->streamed.begin(), node.staged->streamed.end());
    }
  }
  words.insert(words.end(), streamed.begin(), streamed.end());
  running_[key] = run_(words, delivery_limit, [this, key](const CommandEnded& ended) {
    observer_.observe(OutputsDelivered{key.first, key.second, error_of(ended)});
  });
}

}  // namespace muster
