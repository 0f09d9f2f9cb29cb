#include "scheduler/state/suspicion.h"

#include <algorithm>

#include "scheduler/state/limits.h"

namespace muster {

namespace {

constexpr std::int64_t one_job = 1000;

// Straight between two halvings, so that no floating point decides.
std::int64_t weight_at_age(Milliseconds age) {
  const std::int64_t half_life = suspicion_half_life.count();
  const std::int64_t passed = std::max<std::int64_t>(0, age.count());
  const std::int64_t halvings = passed / half_life;
  if (halvings >= 10) return 0;
  const std::int64_t rest = passed % half_life;
  return (one_job >> halvings) * (2 * half_life - rest) / (2 * half_life);
}

}  // namespace

std::int64_t suspicion_of(const std::vector<NodeEvidence>& evidence, Time now) {
  std::int64_t sum = 0;
  for (const NodeEvidence& piece : evidence) sum += weight_at_age(now - piece.at);
  return sum;
}

std::vector<NodeEvidence> with_evidence(std::vector<NodeEvidence> evidence, NodeEvidence piece) {
  std::erase_if(evidence, [&](const NodeEvidence& old) { return old.job == piece.job; });
  evidence.push_back(std::move(piece));
  if (evidence.size() > evidence_kept) evidence.erase(evidence.begin());
  return evidence;
}

Time faded_below(const std::vector<NodeEvidence>& evidence, std::int64_t limit, Time now) {
  constexpr Milliseconds step{3'600'000};
  Time when = now;
  while (suspicion_of(evidence, when) >= limit) when += step;
  return when;
}

bool is_suspect(const Node& node, Time now) {
  return !node.evidence.empty() && suspicion_of(node.evidence, now) >= one_job / 2;
}

}  // namespace muster
