// Which way a node is reached: directly, or through another that is already connected. Parents are
// only ever nodes whose relay works, so that a slow or dead one is nobody's parent: there is no
// plan to be waited for. Those that are there first take the others, evenly, the shallowest first.
// Pure.
#pragma once

#include <variant>
#include <vector>

#include "scheduler/model/compute.h"
#include "scheduler/model/ids.h"

namespace muster {

// A node whose relay works.
struct FanOutParent {
  NodeId id;
  int depth = 1;     // 1: connected directly
  int children = 0;  // connected or being connected
};

// A target as one of its nodes is about to be reached.
struct FanOutView {
  int nodes = 0;    // connected, being connected or waiting, with this one
  int direct = 0;   // of these, connected directly or being so
  int hopeful = 0;  // will soon be parents: in their first try, or with a relay that is starting
  int idle = 0;     // connected and without a relay: one could be started
  int returning = 0;  // have been there and lost a link or a relay: hope when there is no place
  bool is_proven = false;  // a node has been reached through another
  bool is_broken = false;  // lately none could be
  bool is_impatient = false;  // the node has waited long enough
  std::vector<FanOutParent> parents;
};

struct GoDirectly {};
struct GoThrough {
  NodeId parent;
};
struct StayWaiting {};
using FanOutWay = std::variant<GoDirectly, GoThrough, StayWaiting>;

bool is_tree(const ConnectSettings& limits, const FanOutView& view);

FanOutWay way_to_node(const ConnectSettings& limits, const FanOutView& view);

// Whether one more connected node gets a relay: `waiting` nodes have no way yet, and `starting`
// relays will soon be there.
bool wants_relay(const ConnectSettings& limits, const FanOutView& view, int waiting, int starting);

}  // namespace muster
