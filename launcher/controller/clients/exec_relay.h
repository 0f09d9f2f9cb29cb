// What passes through the controller between two others: `exec` between a client and an agent, and
// what launchers have started (mpirun's daemons, or any command with muster.remote_start) between
// two agents. Holds only routes. A side of an `exec` that goes away ends it; a daemon's route
// outlives connections, since both agents go on without the controller.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <string>

#include "launcher/controller/agents/pool.h"
#include "launcher/controller/clients/server.h"
#include "scheduler/state/state.h"

namespace muster {

class Relay final : public NodeListener {
 public:
  Relay(const State& state, AgentPool& pool) : state_(state), pool_(pool) {}

  // Starts the command beside the rank, or answers Refused.
  void exec(const std::shared_ptr<Session>& session, const Exec& request);
  void input(const std::shared_ptr<Session>& session, std::string_view payload);
  void control(const std::shared_ptr<Session>& session, ExecControl control);
  void output(const NodeId& from, const ExecOutput& output, std::string_view payload);
  void taken(const NodeId& from, const ExecTaken& taken);
  void ended(const NodeId& from, const ExecEnded& ended);
  void client_gone(const std::shared_ptr<Session>& session);

  // Only of node 0, and on nodes of its own attempt: of an MPI job mpirun's daemon; of one that has
  // muster.remote_start any command.
  void remote_start(const NodeId& from, const RemoteStartAsked& asked);
  void remote_start_ended(const NodeId& from, const RemoteStartEnded& ended);
  void remote_output(const NodeId& from, RemoteOutput piece, std::string_view payload);
  void remote_output_ack(const NodeId& from, const RemoteOutputAck& ack);
  void node_up(const NodeId& node, const Welcome& welcome) override;
  void node_down(const NodeId& node, const LinkFailure& failure) override;
  bool take(const NodeId& node, const FromAgent& message, std::string_view payload) override;

 private:
  struct ExecRoute {
    std::weak_ptr<Session> client;
    NodeId node;
    JobId job;
    bool is_connection = false;
  };
  ExecRoute* route_of(const NodeId& from, const std::string& id);
  struct StartRoute {
    NodeId asker;
    NodeId target;
    std::string ticket;   // as the asker knows it
    RemoteStart request;  // sent again when the target's connection is back
  };

  const State& state_;
  AgentPool& pool_;
  std::map<std::string, ExecRoute> execs_;
  std::map<std::string, StartRoute> starts_;
  // An agent may still have a session of the controller before.
  std::int64_t next_id_ = std::chrono::steady_clock::now().time_since_epoch().count();
};

}  // namespace muster
