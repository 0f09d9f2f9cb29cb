// How the controller reaches an agent: a Transport opens a Link, a Link is an ordered byte stream
// to one agent. Owned by the controller, used on its one thread only; every callback runs from the
// io_context, never from inside the call that registered it. A Link never interprets the bytes.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "scheduler/model/compute.h"
#include "scheduler/model/link.h"
#include "scheduler/model/outcome.h"
#include "scheduler/model/retention.h"
#include "scheduler/text/clock.h"

namespace muster {

// attach: joins the stream to the agent, which it starts; relay: goes on to further nodes, where
// the transport needs no login.
enum class AgentService { attach, relay };

// What must run at the other end: `<home>/bin/muster-<build_id> agent attach …`, pushed if absent.
struct AgentLaunch {
  std::string binary;         // path of the executable to push: this one
  std::string build_id;       // hex, names the pushed file
  std::string controller_id;  // [a-z0-9]+, names the agent's run directory
  std::string home;           // muster's directory on the node, "~/…" allowed; empty: ~/.muster
  AgentService service = AgentService::attach;
  std::string target{};       // the compute target the node is of; empty: a node by itself
  ConnectSettings connect{};  // the target's limits on reaching its nodes
  RetentionLimits retention{};  // what the agent removes of muster's own
};

// Time spent in each phase of reaching a node, in order; phases that did not happen are absent.
using ConnectProfile = std::vector<PhaseTime>;

class Link {
 public:
  struct Handlers {
    std::function<void(std::span<const std::byte>)> on_bytes;
    std::function<void(LinkFailure)> on_closed;  // once, after which nothing is called any more
  };

  virtual ~Link() = default;  // closes without calling anything
  virtual void start(Handlers handlers) = 0;
  virtual void write(std::string bytes) = 0;             // queued, in order
  virtual std::size_t queued_bytes() const = 0;  // accepted and not yet handed to the network
};

struct Connected {
  std::unique_ptr<Link> link;
  ConnectProfile profile;
  std::string methods{};             // key exchange, host key, cipher and MAC; empty: unknown
  std::optional<NodeId> through{};   // the node whose relay carries the link; none: direct
  std::string first_contact{};       // a sentence on its host key; empty: it was known
};

using ConnectResult = std::variant<Connected, LinkFailure>;

class Transport {
 public:
  virtual ~Transport() = default;
  // Exactly one call of `done`, within the transport's own timeout.
  virtual void connect(const NodeAddress& node, const AgentLaunch& launch,
                       std::function<void(ConnectResult)> done) = 0;
};

}  // namespace muster
