#include "launcher/relay/fan_out_plan.h"

#include <algorithm>
#include <tuple>

namespace muster {
namespace {

// Of the nodes below those that are connected directly, each of these gets so many.
int even_share(const ConnectSettings& limits, const FanOutView& view) {
  const int below = std::max(0, view.nodes - limits.fan_out_radix);
  const int share = (below + limits.fan_out_radix - 1) / limits.fan_out_radix;
  return std::clamp(share, 1, limits.fan_out_radix);
}

// Before anybody was reached through another, one child per parent tries.
int most_children(const ConnectSettings& limits, const FanOutView& view) {
  if (!view.is_proven) return 1;
  const bool others_come = view.hopeful > 0 && !view.is_impatient;
  return others_come ? even_share(limits, view) : limits.fan_out_radix;
}

bool is_being_tried(const FanOutView& view) {
  return !view.is_proven && std::any_of(view.parents.begin(), view.parents.end(),
                                        [](const FanOutParent& one) { return one.children > 0; });
}

}  // namespace

bool is_tree(const ConnectSettings& limits, const FanOutView& view) {
  return view.nodes > limits.fan_out_above && !view.is_broken;
}

FanOutWay way_to_node(const ConnectSettings& limits, const FanOutView& view) {
  if (!is_tree(limits, view) || view.direct < limits.fan_out_radix) return GoDirectly{};
  if (!view.is_proven && view.is_impatient) return GoDirectly{};
  const int most = most_children(limits, view);
  const FanOutParent* best = nullptr;
  for (const FanOutParent& each : view.parents) {
    if (each.children >= most) continue;
    const auto rank = [](const FanOutParent& one) { return std::tie(one.depth, one.children); };
    if (best == nullptr || rank(each) < rank(*best)) best = &each;
  }
  if (best != nullptr) return GoThrough{best->id};
  const bool has_hope =
      view.hopeful + view.returning + view.idle > 0 || is_being_tried(view);
  if (has_hope && !view.is_impatient) return StayWaiting{};
  return GoDirectly{};
}

bool wants_relay(const ConnectSettings& limits, const FanOutView& view, int waiting,
                 int starting) {
  if (!is_tree(limits, view)) return false;
  const int share = even_share(limits, view);
  int room = starting * share;
  for (const FanOutParent& each : view.parents) room += std::max(0, share - each.children);
  return waiting > room;
}

}  // namespace muster
