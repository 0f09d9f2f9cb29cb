// Gives every node the work State says is pending there, once per connection; after a reconnection
// again, which agents understand. Also feeds the blobs a node asks for, slowly enough that the link
// never holds more than a few of them. Owned by the Controller.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launcher/controller/agents/pool.h"
#include "launcher/controller/agents/rank_logs.h"
#include "launcher/controller/agents/remediation.h"
#include "launcher/controller/store/home.h"
#include "launcher/staging/blob_store.h"
#include "scheduler/decide/decide.h"

namespace muster {

class WorkSender final : public NodeListener {
 public:
  // Observes NodeStaged without the agent, when it failed here or there is nothing to bring, and
  // StagingSeen once a minute while bytes go to a node, or an image is fetched for it by
  // `run`, with the program `binary`.
  WorkSender(Timers& timers, Home home, const State& state, AgentPool& pool, RankLogs& logs,
             Observer& observer, std::string secret_key = {}, RunCommand run = {},
             std::string binary = {});

  // Connects the nodes of live attempts and sends what is pending to those that answer, and that
  // are not busy with ending an earlier part that they had in the attempt.
  using IsClearedAway = std::function<bool(const NodeWork&)>;
  void perform(const IsClearedAway& is_cleared_away);
  // As the target says it; `perform` does it for every node that a live job owns.
  void want(const ComputeTarget& target, const NodeId& node);
  // For somebody who waits: AgentPool::await.
  void await(const ComputeTarget& target, const NodeAddress& node);
  void node_up(const NodeId& node, const Welcome& welcome) override;
  void node_down(const NodeId& node, const LinkFailure& failure) override;
  bool take(const NodeId& node, const FromAgent& message, std::string_view payload) override;
  void job_over(const JobId& job);

 private:
  struct Feed {
    std::deque<std::string> hashes;
    std::int64_t offset = 0;
    StagingSeen seen;
    SteadyTime told;
  };

  // An image whose registry nodes cannot reach, fetched here for all that wait.
  struct ImageFetching {
    std::map<NodeId, StageDone> waiting;  // with what each could not do
    std::function<void()> kill;
    std::unique_ptr<Alarm> told;
  };

  bool image_wanted(const NodeId& node, const StageDone& done);
  void report_fetching(const JobId& id);
  void image_fetched(const JobId& id, const CommandEnded& ended);
  void blobs_wanted(const NodeId& node, const WantBlobs& wanted);
  void ask_again(const NodeId& node);
  void staged(const NodeWork& work, const std::string& error);
  void hold();
  void report_rearmed(const NodeId& node);
  const Job* holder_of(const Node& node);
  const NodeAddress* address_of(const Job& job, const NodeId& node);
  std::string home_on_node(const ComputeTarget& target, const NodeAddress& address) const;
  void send_stage(const NodeWork& work);
  std::optional<ImagePull> image_of(const JobId& id) const;
  void report_progress(Feed& feed);
  void pump();
  Status feed(const NodeId& node, Feed& feed);

  Timers& timers_;
  std::unique_ptr<Alarm> pump_alarm_;  // while a feed waits for its link
  Home home_;
  const State& state_;
  AgentPool& pool_;
  RankLogs& logs_;
  Observer& observer_;
  std::string secret_key_;
  RunCommand run_;
  std::string binary_;
  std::map<JobId, ImageFetching> fetching_;
  std::unique_ptr<BlobStore> blobs_;
  std::map<NodeId, JobId> held_;                           // for whom a node is kept connected
  std::map<JobId, std::map<NodeId, std::size_t>> places_;  // of the nodes in their targets
  std::map<NodeId, std::string> sent_;  // what the node was last told, on this connection
  std::map<NodeId, std::unique_ptr<Alarm>> again_;
  std::map<NodeId, Feed> feeds_;
  std::map<JobId, std::shared_ptr<const std::vector<Tree>>> trees_;
};

}  // namespace muster
