// How the controller reaches an agent: a Transport opens a Link, a Link is an ordered byte stream
// to one agent. Owned by the controller, used on its one thread only; every callback runs from the
// io_context, never from inside the call that registered it. A Link never interprets the bytes.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <functional>
#include <list>
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
  std::string target{};         // the compute target the node is of; empty: a node by itself
  ConnectSettings connect{};    // the target's limits on reaching its nodes
  RetentionLimits retention{};  // what the agent removes of muster's own
};

// Time spent in each phase of reaching a node: `resolve`, `tcp`, `kex`, `auth`, `shell` (the login
// shell and its start files), `push` and `agent`. Phases that did not happen are absent.
using ConnectProfile = std::vector<PhaseTime>;

// Collects a profile: each `finish` closes the phase that began at the one before it.
class PhaseTimer {
 public:
  void restart() { since_ = std::chrono::steady_clock::now(); }
  void finish(std::string_view phase) {  // a repeated phase adds up
    const auto begun = since_;
    restart();
    add(phase, std::chrono::duration_cast<std::chrono::microseconds>(since_ - begun).count());
  }
  void append(const ConnectProfile& earlier) {
    for (const auto& [phase, us] : earlier) add(phase, us);
  }
  const ConnectProfile& profile() const { return profile_; }

 private:
  void add(std::string_view phase, std::int64_t us) {
    const auto known = std::ranges::find(profile_, phase, &PhaseTime::phase);
    if (known == profile_.end()) {
      profile_.push_back({std::string(phase), us});
    } else {
      known->us += us;
    }
  }

  std::chrono::steady_clock::time_point since_ = std::chrono::steady_clock::now();
  ConnectProfile profile_;
};

class Link {
 public:
  struct Handlers {
    std::function<void(std::span<const std::byte>)> on_bytes;
    std::function<void(LinkFailure)> on_closed;  // once, after which nothing is called any more
  };

  virtual ~Link() = default;  // closes without calling anything
  virtual void start(Handlers handlers) = 0;
  virtual void write(std::string bytes) = 0;     // queued, in order
  virtual std::size_t queued_bytes() const = 0;  // accepted and not yet handed to the network
};

struct Connected {
  std::unique_ptr<Link> link;
  ConnectProfile profile;
  std::string methods{};            // key exchange, host key, cipher and MAC; empty: unknown
  std::optional<NodeId> through{};  // the node whose relay carries the link; none: direct
  std::string first_contact{};      // a sentence on its host key; empty: it was known
  // To the host, as the kernel measured it; nothing: unknown.
  std::optional<std::chrono::microseconds> round_trip{};
};

using ConnectResult = std::variant<Connected, LinkFailure>;
using ConnectDone = std::function<void(ConnectResult)>;

class Transport {
 public:
  virtual ~Transport() = default;
  // Exactly one call of `done`, within the transport's own timeout.
  virtual void connect(const NodeAddress& node, const AgentLaunch& launch, ConnectDone done) = 0;
};

// The attempts of a transport that are under way; dropped without a call when it goes.
template <class Attempt>
class UnderWay {
 public:
  ~UnderWay() {
    for (const auto& each : *active_) each->cancel();
  }
  // `make` is given what the attempt calls, once, with its result.
  template <class Make, class Done>
  std::shared_ptr<Attempt> add(Make make, Done done) {
    const auto place = active_->emplace(active_->end());
    return *place =
               make([weak = std::weak_ptr(active_), place, done = std::move(done)](auto result) {
                 const auto active = weak.lock();
                 if (!active) return;
                 const auto keep = std::move(*place);  // it is calling
                 active->erase(place);
                 done(std::move(result));
               });
  }

 private:
  using List = std::list<std::shared_ptr<Attempt>>;
  std::shared_ptr<List> active_ = std::make_shared<List>();
};

}  // namespace muster
