// Looks at nodes' health for the command line: reaches each node, has its agent run the checks,
// hands on what they say. Nodes side by side, each with a deadline; whatever keeps a node from
// answering is its answer. Decides nothing about nodes and journals nothing. Owned by the
// Controller, on its thread.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "launcher/controller/agent_pool.h"
#include "launcher/controller/request_server.h"
#include "launcher/os/timers.h"
#include "scheduler/model/state.h"

namespace muster {

class HealthDesk {
 public:
  // Has a node connected that no job holds.
  using Await = std::function<void(const ComputeTarget&, const NodeAddress&)>;

  HealthDesk(Timers& timers, const State& state, AgentPool& pool, Await await);

  void look(const std::shared_ptr<Session>& session, const LookAtNodes& request);
  // False: it is of something else.
  bool output(const NodeId& from, const ExecOutput& output, std::string_view payload);
  bool ended(const NodeId& from, const ExecEnded& ended);
  void node_up(const NodeId& node);
  void node_down(const NodeId& node, const std::string& why);
  void client_gone(const std::shared_ptr<Session>& session);

 private:
  //   awaiting its node ──► asked ──► answered, and gone
  struct Look {
    std::weak_ptr<Session> client;
    NodeId node;
    LookAtHealth request;
    bool is_asked = false;
    std::string said{};
    std::string complained{};
    std::unique_ptr<Alarm> deadline{};
  };
  using Looks = std::map<std::string, Look>;

  void begin(Look look, Milliseconds timeout);
  void ask(Look& look);
  void late(const std::string& id, Milliseconds timeout);
  // Ends the look; the client's connection with its last one.
  void answer(Looks::iterator at, const std::string& error);
  void let_go(const NodeId& node);  // unless another look waits for it
  bool is_held(const NodeId& node) const;
  std::string what_it_waits_for(const Look& look) const;
  std::string drained_for(const NodeId& node) const;

  Timers& timers_;
  const State& state_;
  AgentPool& pool_;
  Await await_;
  Looks looks_;  // by the id that agents know
  std::uint64_t next_id_ = 1;
};

}  // namespace muster
