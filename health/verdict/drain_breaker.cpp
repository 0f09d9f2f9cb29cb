#include "health/verdict/drain_breaker.h"

#include <algorithm>
#include <cmath>

namespace muster {

namespace {

std::size_t drains_most(std::size_t nodes_of_fleet, const BreakerProfile& limits) {
  const double share = static_cast<double>(nodes_of_fleet) * std::max(0.0, limits.fleet_pct) / 100;
  // A hair more: a product that is 3 by the book may be 2.9999….
  const auto part = static_cast<std::size_t>(std::floor(share + 1e-9));
  return std::max(static_cast<std::size_t>(std::max(0, limits.min_nodes)), part);
}

void drop_old(CheckBreaker& breaker, const BreakerProfile& limits, Time now) {
  const Time begin = now - Seconds{std::max(0, limits.window_s)};
  std::erase_if(breaker.drains, [&](const DrainedByCheck& one) { return one.at <= begin; });
}

bool has_drained(const CheckBreaker& breaker, const NodeId& node) {
  return std::ranges::find(breaker.drains, node, &DrainedByCheck::node) != breaker.drains.end();
}

void add_to(BreakerIncident& incident, const NodeId& node) {
  if (std::ranges::find(incident.nodes, node) == incident.nodes.end()) {
    incident.nodes.push_back(node);
  }
}

BreakerIncident incident_of(const CheckBreaker& breaker, const DrainRequest& request,
                            std::size_t nodes_of_fleet, const BreakerProfile& limits, Time now) {
  BreakerIncident incident;
  incident.opened_at = now;
  for (const DrainedByCheck& one : breaker.drains) incident.nodes.push_back(one.node);
  add_to(incident, request.node);
  incident.text = request.check + " would drain " + request.node.value + " too: more than " +
                  std::to_string(drains_most(nodes_of_fleet, limits)) + " of " +
                  std::to_string(nodes_of_fleet) + " nodes within " +
                  std::to_string(limits.window_s) +
                  " s look like one fault of network, storage or power";
  return incident;
}

}  // namespace

DrainAnswer ask_to_drain(DrainBreakers& breakers, const DrainRequest& request,
                         std::size_t nodes_of_fleet, const BreakerProfile& limits, Time now) {
  CheckBreaker& breaker = breakers[request.check];
  if (breaker.reset_at && request.believed_at <= *breaker.reset_at) return DrainAnswer::withheld;
  if (breaker.open) {
    add_to(*breaker.open, request.node);
    return DrainAnswer::withheld;
  }
  drop_old(breaker, limits, now);
  if (has_drained(breaker, request.node)) return DrainAnswer::granted;
  if (breaker.drains.size() >= drains_most(nodes_of_fleet, limits)) {
    breaker.open = incident_of(breaker, request, nodes_of_fleet, limits, now);
    return DrainAnswer::withheld;
  }
  breaker.drains.push_back({request.node, now});
  return DrainAnswer::granted;
}

void close_breaker(DrainBreakers& breakers, const std::string& check, Time now) {
  CheckBreaker& breaker = breakers[check];
  breaker.open.reset();
  breaker.drains.clear();
  breaker.reset_at = now;
}

bool is_withheld(const DrainBreakers& breakers, const std::string& check, Time believed_at) {
  const auto found = breakers.find(check);
  if (found == breakers.end()) return false;
  const CheckBreaker& breaker = found->second;
  return breaker.open || (breaker.reset_at && believed_at <= *breaker.reset_at);
}

}  // namespace muster
