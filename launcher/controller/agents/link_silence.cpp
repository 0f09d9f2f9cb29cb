#include "launcher/controller/agents/link_silence.h"

#include <algorithm>

#include "launcher/controller/agents/connection.h"
#include "scheduler/state/lookup.h"

namespace muster {
namespace {

// Agents are asked every two seconds at least, and answer within milliseconds.
constexpr Milliseconds usual_silence{4000};

}  // namespace

std::optional<LinkSilence> link_silence(const State& state, const Node& node, Milliseconds silent,
                                        Time now) {
  if (silent < usual_silence) return std::nullopt;
  const Job* job = node.owner ? find_job(state, *node.owner) : nullptr;
  const Attempt* attempt = job == nullptr ? nullptr : active_attempt(*job);
  const bool runs_there = attempt != nullptr && attempt->launched;
  const Milliseconds patience = runs_there ? job->target.unreachable : Milliseconds{0};
  const auto* lost = std::get_if<Unlinked>(&node.link);
  if (lost == nullptr) return LinkSilence{silent, AgentConnection::silence_limit + patience};
  if (!runs_there) return std::nullopt;
  return LinkSilence{silent, std::max(Milliseconds{0}, silent - (now - lost->since)) + patience};
}

}  // namespace muster
