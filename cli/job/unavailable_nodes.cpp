#include "cli/job/unavailable_nodes.h"

#include "cli/client/connection.h"
#include "launcher/controller/store/store.h"
#include "scheduler/apply/apply.h"
#include "scheduler/node/status.h"
#include "scheduler/text/duration.h"

namespace muster {

namespace {

// A look at a job must not hang because the controller does.
constexpr Milliseconds patience{2000};

std::optional<UnavailableNodes> by_controller(const Home& home) {
  auto client = ControllerClient::connect(home);
  if (!client || !*client) return std::nullopt;
  const auto answer = ask(**client, AskNodes{}, patience);
  const auto* nodes = answer ? std::get_if<NodesAnswer>(&*answer) : nullptr;
  if (nodes == nullptr) return std::nullopt;
  UnavailableNodes out;
  for (const NodeLine& node : nodes->nodes) {
    if (const std::string why = why_unavailable(node); !why.empty()) out[NodeId{node.node}] = why;
  }
  return out;
}

UnavailableNodes by_journal(const Home& home) {
  UnavailableNodes out;
  const auto store = Store::open(home.root, Store::Mode::read_only);
  const auto records = store ? (*store)->load_live() : store.error();
  if (!records) return out;
  State state;
  for (const Record& record : *records) apply(state, record);
  Moment moment(wall_clock_now());
  for (const auto& [id, node] : state.nodes) {
    if (const auto why = refusal_of(&node, moment)) out[id] = *why;
  }
  return out;
}

}  // namespace

UnavailableNodes unavailable_nodes(const Home& home) {
  auto nodes = by_controller(home);
  return nodes ? *nodes : by_journal(home);
}

std::string why_unavailable(const NodeLine& node) {
  const auto because = [](const std::string& why) { return why.empty() ? "" : ": " + why; };
  if (node.drained) return node.node + " is drained" + because(node.drain_reason);
  if (node.unfit) {
    return node.node + " is drained by a health check" + because(node.unfit_reason);
  }
  if (!node.remedy.empty()) return node.node + " " + node.remedy;
  if (!node.leaves.empty()) return node.leaves;
  if (!node.set_aside.empty()) return node.node + " is cordoned" + because(node.set_aside);
  if (node.link.starts_with("down")) return node.node + " is " + node.link;
  return "";
}

}  // namespace muster
