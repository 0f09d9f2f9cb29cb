// How long a node has said nothing, and when it will count as lost: for people who look before that
// happens. Pure.
#pragma once

#include <optional>

#include "scheduler/state/state.h"

namespace muster {

struct LinkSilence {
  Milliseconds silent;   // since its last word
  Milliseconds lost_at;  // so silent, its job continues without it; without a job: its link is lost
};

// `silent`: since the last word on any link to it. Nothing: not unusual, or nobody waits for it.
std::optional<LinkSilence> link_silence(const State& state, const Node& node, Milliseconds silent,
                                        Time now);

}  // namespace muster
