// Every node's connection and when to try again. Owned by the Controller, on its thread. Tells of a
// change once: repeated failures of the same kind are not reported again.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "launcher/controller/agents/connection.h"
#include "launcher/wire/client_message.h"
#include "scheduler/model/observation.h"

namespace muster {

// What the parts of a controller tell its loop. Called on its thread; nothing is done before the
// caller is back.
class Observer {
 public:
  virtual ~Observer() = default;

  virtual void observe(Observation what) = 0;  // for the journal
  // For who follows the job.
  virtual void progress(const JobId&, const JobEvent&) {}
  virtual void note(const JobId&, const std::string& /*sentence*/) {}
  // Pending work that waited may be done now, though nothing was observed.
  virtual void post_turn() {}
};

class NodeListener {
 public:
  virtual ~NodeListener() = default;

  virtual void node_up(const NodeId&, const Welcome&) {}
  virtual void node_down(const NodeId&, const LinkFailure&) {}
  // Of a node that somebody waits for: each failure, also when it is no news.
  virtual void node_failed(const NodeId&, const LinkFailure&) {}
  // True: no later listener is asked.
  virtual bool take(const NodeId&, const FromAgent&, std::string_view /*payload*/) { return false; }
};

class AgentPool {
 public:
  AgentPool(Timers& timers, Transport& transport, AgentLaunch launch);

  // In the order in which they hear; before the first node is wanted.
  void set_listeners(std::vector<NodeListener*> listeners);

  // Starts connecting unless connected, connecting, or waiting after a failure.
  void want(const NodeAddress& address, const ComputeTarget& target, const std::string& home);
  // Somebody waits for the node until told otherwise: it is tried at once, and again; no more after
  // that, unless it is wanted as well.
  void await(const NodeAddress& address, const ComputeTarget& target, const std::string& home);
  void await_no_more(const NodeId& node);
  // Nodes nobody wants keep their link but are not connected again.
  void set_wanted(const std::set<NodeId>& nodes);
  AgentConnection* up(const NodeId& node);          // null: not connected
  AgentConnection* find(const NodeId& node) const;  // null: it is not known how it is reached
  void send(const NodeId& node, const ToAgent& message, std::string_view payload = {});
  void retire_all();
  std::size_t queued_bytes() const;  // of all links, not yet handed to the network

 private:
  struct Entry {
    std::unique_ptr<AgentConnection> connection;
    std::unique_ptr<Alarm> retry;  // while it waits after a failure
    Milliseconds backoff{0};
    std::optional<SteadyTime> up_since;
    bool wanted = false;
    bool awaited = false;
    std::optional<LinkFailure> reported;
    bool is_tried() const { return wanted || awaited; }
  };

  AgentConnection::Events events_of(const NodeId& node);
  void reach(Entry& entry, const NodeAddress& address, const ComputeTarget& target,
             const std::string& home);
  void failed(const NodeId& node, const LinkFailure& failure);

  Timers& timers_;
  Transport& transport_;
  AgentLaunch launch_;
  std::vector<NodeListener*> listeners_;
  std::map<NodeId, Entry> entries_;
};

}  // namespace muster
