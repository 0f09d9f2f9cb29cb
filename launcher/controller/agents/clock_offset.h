// How far a node's monotonic clock is ahead of the controller's, as an interval, from the stamps of
// the messages between them; wall clocks play no part. Pure; one for each link, owned by its
// AgentConnection. All times in us.
//
//   controller  T1 ───────────► . . . . . . ►───────────── T4        offset = node - controller
//   node              T2 ►──── T3                          lies in [T3 - T4, T2 - T1]
//
// Each exchange is right about its own time. At another time it is widened by what two oscillators
// can drift apart, and what all exchanges of the last minute agree on is the estimate.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>

#include "launcher/wire/agent_report.h"
#include "scheduler/model/outcome.h"

namespace muster {

struct Interval {
  std::int64_t least = 0;
  std::int64_t most = 0;
};

class ClockOffset {
 public:
  void add(const ClockStamps& stamps, std::int64_t heard_us);  // heard: T4
  void forget() { *this = ClockOffset{}; }  // another boot of the node: another clock

  // What the offset was or will be when the node's clock shows `node_us`; none before an exchange.
  std::optional<Interval> at(std::int64_t node_us) const;

  // A span of the node's clock on the controller's; none when either clock has jumped since.
  std::optional<Interval> to_controller(Interval node_span) const;

  // The last moment, on the controller's clock, at which the node is known to have lived: its
  // latest answer can have been given no earlier.
  std::optional<std::int64_t> last_answer_us() const;

 private:
  struct Bound {
    Interval offset;
    std::int64_t node_us = 0;  // T3
    std::int64_t heard_us = 0;  // T4
  };

  std::deque<Bound> bounds_;  // oldest first
  std::optional<std::int64_t> jumped_before_us_;  // on the node's clock
};

// Intervals of this host's raw_time() as the journal has them: with the name of the clock, so that
// those from before a reboot, or of another host that had the same state directory, are told apart.

std::optional<ClockInterval> on_this_host(const std::optional<Interval>& interval_us);

}  // namespace muster
