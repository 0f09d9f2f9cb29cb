// Looks at nodes' health for the command line, and has idle ones measured: reaches each node, has
// its agent run the checks or the probes, hands on what they say. Nodes side by side, each with a
// deadline; whatever keeps a node from answering is its answer. Decides nothing about nodes and
// journals nothing. Owned by the Controller, on its thread.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "launcher/controller/agents/pool.h"
#include "launcher/controller/clients/server.h"
#include "launcher/os/timers.h"
#include "scheduler/state/state.h"

namespace muster {

class NodeHealthService final : public NodeListener {
 public:
  // Has a node connected that no job holds.
  using Await = std::function<void(const ComputeTarget&, const NodeAddress&)>;

  NodeHealthService(Timers& timers, const State& state, AgentPool& pool, Await await);

  void look(const std::shared_ptr<Session>& session, const LookAtNodes& request);
  void measure(const std::shared_ptr<Session>& session, const MeasureNodes& request);
  // False: it is of something else.
  bool output(const NodeId& from, const ExecOutput& output, std::string_view payload);
  bool ended(const NodeId& from, const ExecEnded& ended);
  bool take(const NodeId& node, const FromAgent& message, std::string_view payload) override;
  void node_up(const NodeId& node, const Welcome& welcome) override;
  void node_down(const NodeId& node, const LinkFailure& failure) override;
  void node_failed(const NodeId& node, const LinkFailure& failure) override;
  void client_gone(const std::shared_ptr<Session>& session);

 private:
  //   awaiting its node ──► asked ──► answered, and gone
  struct Look {
    std::weak_ptr<Session> client;
    NodeId node;
    std::variant<LookAtHealth, MeasureNode> request;
    std::int64_t place = 0;               // NodeLooked::place
    std::optional<Milliseconds> limit{};  // from when it is asked; none: the deadline stays
    bool is_asked = false;
    bool is_refused = false;  // by the agent, or by the program before it measured
    std::string said{};
    std::string complained{};
    std::unique_ptr<Alarm> deadline{};
  };
  using Looks = std::map<std::string, Look>;

  void reach(const NodesMeant& meant);
  std::string begin(Look look, Milliseconds timeout);  // its id
  // Those whose nodes are there. Answers what a node refuses.
  void ask_all(const std::vector<std::string>& ids);
  void ask(Looks::iterator at);
  // So much waits for it that nothing more should be asked for before it has read that.
  bool is_behind(const std::shared_ptr<Session>& client);
  void late(const std::string& id, Milliseconds timeout);
  // Ends the look; the client's connection with its last one. `is_void`: NodeLooked::is_void.
  void answer(Looks::iterator at, const std::string& error, bool is_void = false);
  void release(const NodeId& node);  // unless another look waits for it
  bool is_held(const NodeId& node) const;
  std::string holder_of(const NodeId& node) const;
  std::string what_it_waits_for(const Look& look) const;
  std::string drained_for(const NodeId& node) const;
  template <class Fits>
  std::vector<std::string> ids_of(Fits fits) const;

  Timers& timers_;
  const State& state_;
  AgentPool& pool_;
  Await await_;
  Looks looks_;  // by the id that agents know
  std::uint64_t next_id_ = 1;
};

}  // namespace muster
