#include "launcher/controller/agents/work_sender.h"

#include "launcher/controller/agents/work_message.h"
#include "launcher/data/datastore.h"
#include "launcher/image/name.h"
#include "launcher/os/read_file.h"
#include "launcher/staging/trees_file.h"
#include "launcher/wire/message_codec.h"
#include "scheduler/node/fault_drain.h"
#include "scheduler/placement/allocate.h"
#include "scheduler/state/lookup.h"
#include "scheduler/state/membership.h"
#include "scheduler/state/rank_map.h"
#include "scheduler/text/text.h"

namespace muster {

namespace {

// Enough to keep a 10 Gbit/s link busy between two looks, little enough that 64 nodes being staged
// at once hold 256 MiB only if none of them reads.
constexpr std::size_t feed_window_bytes = 4u << 20;
constexpr std::size_t piece_bytes = 256u << 10;
constexpr Milliseconds pump_interval{2};
// Far below the core's limit for a node that receives nothing, and few records in a long staging.
constexpr Milliseconds told_interval{60'000};
// An agent tries for a minute to end what the kernel holds, and it looks at every process for that.
constexpr Milliseconds ask_again_interval{60'000};

// 100 GB at 5 MB/s; one that hangs ends by skopeo's own silence.
constexpr Milliseconds fetch_limit{6 * 3'600'000};
constexpr std::size_t fetch_error_bytes = 500;

// What a job was submitted with lies here alone: no node and no later try can do without it.
Error gone(const Error& why) {
  return Error{why.message + "; what the job was submitted with is gone here, so submit it again"};
}

std::string key_of(const State& state, const NodeWork& work) {
  std::string key = work.job.value + "/" + std::to_string(work.attempt.value) + "/" +
                    std::to_string(work.work.index());
  if (const auto* stop = std::get_if<StopWork>(&work.work)) {
    key += "/" + std::to_string(static_cast<int>(stop->why.reason)) + "/" +
           std::to_string(stop->why.grace.count()) + "/" +
           std::to_string(stop->why.grace_max.count()) + (stop->leaves ? "/leaves" : "");
  }
  if (const auto* collect = std::get_if<CollectWork>(&work.work)) {
    key += "/" + std::to_string(collect->failures);
  }
  if (std::holds_alternative<MembersWork>(work.work)) {
    const Attempt* attempt = find_attempt(state, work.job, work.attempt);
    key += "/" + std::to_string(attempt == nullptr ? 0 : attempt->members.epoch);
  }
  return key;
}

}  // namespace

WorkSender::WorkSender(Timers& timers, Home home, const State& state, AgentPool& pool,
                       RankLogs& logs, Observer& observer, std::string secret_key, RunCommand run,
                       std::string binary)
    : timers_(timers),
      home_(std::move(home)),
      state_(state),
      pool_(pool),
      logs_(logs),
      observer_(observer),
      secret_key_(std::move(secret_key)),
      run_(std::move(run)),
      binary_(std::move(binary)) {}

// Pretend nodes keep everything in the state directory: removing it removes all.
std::string WorkSender::home_on_node(const ComputeTarget& target,
                                     const NodeAddress& address) const {
  const bool own = address.transport == TransportKind::local && target.remote_home.empty();
  return own ? (home_.root / "nodes").string() : target.remote_home;
}

void WorkSender::perform(const IsClearedAway& is_cleared_away) {
  hold();
  WorkMessages messages(state_, timers_.wall_now(), pool_, home_, secret_key_);
  for (const NodeWork& work : pending_work(state_)) {
    if (pool_.up(work.node) == nullptr) continue;
    if (is_cleared_away(work)) continue;
    std::string key = key_of(state_, work);
    if (sent_[work.node] == key) continue;
    sent_[work.node] = std::move(key);
    if (std::holds_alternative<CheckWork>(work.work)) report_rearmed(work.node);
    if (std::holds_alternative<StageWork>(work.work))
      send_stage(work);
    else
      pool_.send(work.node, messages.message(work));
  }
}

// A check may have been armed again for a target that no job had then: its agents know nothing of
// it, and would refuse the job.
void WorkSender::report_rearmed(const NodeId& id) {
  const Node* node = find_node(state_, id);
  FaultsFixed mended;
  for (const NodeFault& fault : node ? node->faults : std::vector<NodeFault>()) {
    if (is_rearmed_since(state_, id, fault)) mended.ids.push_back(fault.id);
  }
  if (!mended.ids.empty()) pool_.send(id, mended);
}

// Jobs may give a node different addresses or leases: its owner's count.
void WorkSender::hold() {
  const std::set<NodeId> wanted = nodes_to_connect(state_);
  std::erase_if(held_, [&wanted](const auto& item) { return !wanted.contains(item.first); });
  for (const NodeId& id : wanted) {
    const Job* job = holder_of(*find_node(state_, id));
    if (job == nullptr) continue;
    const auto held = held_.find(id);
    if (held != held_.end() && held->second == job->id) continue;
    const NodeAddress* address = address_of(*job, id);
    if (address == nullptr) continue;
    held_[id] = job->id;
    pool_.want(*address, job->target, home_on_node(job->target, *address));
  }
  pool_.set_wanted(wanted);
}

// Whose target says how the node is reached. Null: as it was reached before. A free node that this
// controller has not reached yet is looked for by an elastic job that could take it, by one whose
// own nodes do not answer, or by one that asks before it is placed; one that is drained for a fault
// or being rebooted, by any job that could.
const Job* WorkSender::holder_of(const Node& node) {
  if (node.owner) return find_job(state_, *node.owner);
  if (pool_.find(node.id) != nullptr) return nullptr;
  for (const auto& [id, job] : state_.jobs) {
    const Attempt* attempt = active_attempt(job);
    const bool may_grow = attempt != nullptr && is_elastic(job.spec);
    const bool gathers = attempt != nullptr && phase_of<Gathering>(*attempt) != nullptr;
    const bool asks = asks_hosts(job) && job.asked->nodes.contains(node.id);
    const bool may_want = may_grow || gathers || asks || node.fault_drain || node.remedy;
    if (may_want && address_of(job, node.id) != nullptr) return &job;
  }
  return nullptr;
}

const NodeAddress* WorkSender::address_of(const Job& job, const NodeId& node) {
  auto& places = places_[job.id];
  if (places.empty()) {
    for (std::size_t i = 0; i < job.target.nodes.size(); ++i) {
      places.emplace(job.target.nodes[i].id, i);
    }
  }
  const auto found = places.find(node);
  return found == places.end() ? nullptr : &job.target.nodes[found->second];
}

void WorkSender::want(const ComputeTarget& target, const NodeId& node) {
  for (const NodeAddress& address : target.nodes) {
    if (address.id == node) pool_.want(address, target, home_on_node(target, address));
  }
}

void WorkSender::await(const ComputeTarget& target, const NodeAddress& node) {
  pool_.await(node, target, home_on_node(target, node));
}

void WorkSender::send_stage(const NodeWork& work) {
  auto& trees = trees_[work.job];
  if (!trees) {
    auto loaded = load_trees(home_.trees(work.job));
    if (!loaded) {
      trees_.erase(work.job);
      return staged(work, gone(loaded.error()).message);
    }
    const auto size = encode(StageTrees{work.job, work.attempt, *loaded}).size();
    if (size > frame_header_limit_bytes) {
      trees_.erase(work.job);
      return staged(work, "job " + work.job.value + " has too many files to copy: their list of " +
                              std::to_string(size >> 20) + " MiB is longer than " +
                              std::to_string(frame_header_limit_bytes >> 20) +
                              " MiB; put them into an archive or on a shared file system");
    }
    trees = std::make_shared<const std::vector<Tree>>(std::move(*loaded));
  }
  const auto image = image_of(work.job);
  // Read anew for each attempt: credentials may have been replaced.
  const auto data = load_job_data(home_.job(work.job));
  auto of_nodes = data ? staged_data(home_.root, *data) : data.error();
  if (!of_nodes) return staged(work, of_nodes.error().message);
  if (trees->empty() && !image && of_nodes->empty()) return staged(work, "");
  pool_.send(work.node, StageTrees{work.job, work.attempt, *trees, image, std::move(*of_nodes)});
}

std::optional<ImagePull> WorkSender::image_of(const JobId& id) const {
  const Job* job = find_job(state_, id);
  if (job == nullptr || job->spec.environment.image.empty()) return std::nullopt;
  const EnvironmentSpec& environment = job->spec.environment;
  return ImagePull{pulled_image(environment), environment.digest, environment.image_bytes,
                   text_of_file(home_.registry_login(id)), environment.runtime};
}

// The agent goes on sending each rank's output from what is safe here.
void WorkSender::node_up(const NodeId& node, const Welcome&) {
  sent_.erase(node);
  feeds_.erase(node);
  const Node* known = find_node(state_, node);
  const Job* job = known != nullptr && known->owner ? find_job(state_, *known->owner) : nullptr;
  const Attempt* attempt = job == nullptr ? nullptr : active_attempt(*job);
  if (attempt == nullptr || std::holds_alternative<Gathering>(attempt->phase)) return;
  const auto acknowledge = [&](RankId rank) {
    if (auto size = logs_.size(job->id, attempt->id, rank)) {
      pool_.send(node, OutputAck{job->id, attempt->id, rank, *size});
    }
  };
  const AttemptNode* place = find_node(*attempt, node);
  if (place == nullptr) return;
  const auto index = static_cast<std::size_t>(place - attempt->nodes.data());
  for (const Rank& rank : ranks_on(*attempt, index)) acknowledge(rank.id);
  if (runs_mpirun(job->spec) && index == 0) acknowledge(mpirun_log);
}

void WorkSender::node_down(const NodeId& node, const LinkFailure&) {
  sent_.erase(node);
  feeds_.erase(node);
  again_.erase(node);
}

bool WorkSender::take(const NodeId& node, const FromAgent& message, std::string_view) {
  const auto* clean = std::get_if<AttemptClean>(&message);
  if (clean != nullptr && !clean->unkillable.empty()) ask_again(node);
  const auto* done = std::get_if<StageDone>(&message);
  if (done != nullptr && done->no_registry) return image_wanted(node, *done);
  const auto* wanted = std::get_if<WantBlobs>(&message);
  if (wanted != nullptr) blobs_wanted(node, *wanted);
  return wanted != nullptr;
}

// False: it is not fetched here, and the node has failed.
bool WorkSender::image_wanted(const NodeId& node, const StageDone& done) {
  const Node* known = find_node(state_, node);
  const bool is_its = known != nullptr && known->owner == done.job;
  const Job* job = is_its ? find_job(state_, done.job) : nullptr;
  if (!run_ || job == nullptr || !job->spec.recorded.contains(image_pull_key)) return false;
  const auto [at, is_new] = fetching_.try_emplace(done.job);
  ImageFetching& fetching = at->second;
  fetching.waiting[node] = done;
  if (!is_new) return true;
  const EnvironmentSpec& environment = job->spec.environment;
  fetching.kill =
      run_({binary_, "agent", "fetch-image", home_.root.string(), done.job.value,
            pulled_image(environment), environment.digest, std::to_string(environment.image_bytes),
            std::to_string(job->spec.muster.nodes_max)},
           fetch_limit, [this, id = done.job](const auto& ended) { image_fetched(id, ended); });
  report_fetching(done.job);
  return true;
}

void WorkSender::report_fetching(const JobId& id) {
  for (const auto& [node, done] : fetching_[id].waiting) {
    observer_.observe(StagingSeen{id, done.attempt, node, 0,
                                  "the image, fetched where the job was submitted: the node cannot "
                                  "reach its registry"});
  }
  fetching_[id].told = timers_.after(told_interval, [this, id] { report_fetching(id); });
}

// The nodes are sent the job's trees again, which have the image now.
void WorkSender::image_fetched(const JobId& id, const CommandEnded& ended) {
  const auto fetching = fetching_.extract(id);
  if (fetching.empty()) return;
  trees_.erase(id);
  std::string why = ended.error.empty() ? joined(ended.lines, "; ") : ended.error;
  for (const auto& [node, done] : fetching.mapped().waiting) {
    sent_.erase(node);
    if (ended.error.empty() && ended.status.ok()) continue;
    observer_.observe(NodeStaged{id, done.attempt, node,
                                 done.error + "; nor was it fetched where the job was submitted: " +
                                     shortened(why, fetch_error_bytes)});
  }
  observer_.post_turn();
}

void WorkSender::staged(const NodeWork& work, const std::string& error) {
  observer_.observe(NodeStaged{work.job, work.attempt, work.node, error, !error.empty()});
}

void WorkSender::blobs_wanted(const NodeId& node, const WantBlobs& wanted) {
  const auto [entry, is_new] = feeds_.try_emplace(node);
  Feed& feed = entry->second;
  if (is_new) feed.told = timers_.now();
  feed.hashes.assign(wanted.hashes.begin(), wanted.hashes.end());
  feed.offset = 0;
  feed.seen = {wanted.job, wanted.attempt, node, feed.seen.bytes};
  if (!pump_alarm_) pump();
}

void WorkSender::report_progress(Feed& feed) {
  const auto now = timers_.now();
  if (now - feed.told < told_interval) return;
  feed.told = now;
  observer_.observe(feed.seen);
}

// Processes there survive SIGKILL: in a while the node is told once more to end them.
void WorkSender::ask_again(const NodeId& node) {
  again_[node] = timers_.after(ask_again_interval, [this, node] {
    sent_.erase(node);
    observer_.post_turn();
  });
}

void WorkSender::job_over(const JobId& job) {
  if (auto fetching = fetching_.extract(job)) fetching.mapped().kill();
  trees_.erase(job);
  places_.erase(job);
  std::erase_if(held_, [&job](const auto& item) { return item.second == job; });
}

// As much as the node's link takes now.
Status WorkSender::feed(const NodeId& node, Feed& feed) {
  if (!blobs_) {
    auto opened = BlobStore::open(home_.blobs());
    if (!opened) return opened.error();
    blobs_ = std::make_unique<BlobStore>(std::move(*opened));
  }
  AgentConnection* connection = pool_.up(node);
  while (connection != nullptr && !feed.hashes.empty() &&
         connection->queued_bytes() < feed_window_bytes) {
    const std::string& hash = feed.hashes.front();
    const auto piece = blobs_->read(hash, feed.offset, piece_bytes);
    if (!piece) return gone(piece.error());
    const bool last = piece->size() < piece_bytes;
    connection->send(BlobData{hash, feed.offset, last}, *piece);
    feed.offset += static_cast<std::int64_t>(piece->size());
    feed.seen.bytes += static_cast<std::int64_t>(piece->size());
    report_progress(feed);
    if (!last) continue;
    feed.hashes.pop_front();
    feed.offset = 0;
  }
  if (connection == nullptr) feed.hashes.clear();
  return Done{};
}

// One piece a node in turn, so that a slow node delays nobody but itself.
void WorkSender::pump() {
  pump_alarm_.reset();
  for (auto it = feeds_.begin(); it != feeds_.end();) {
    auto& [node, pending] = *it;
    const auto fed = feed(node, pending);
    if (!fed) {
      staged({pending.seen.job, pending.seen.attempt, node, 0, StageWork{}}, fed.error().message);
    }
    it = !fed || pending.hashes.empty() ? feeds_.erase(it) : std::next(it);
  }
  if (feeds_.empty()) return;
  pump_alarm_ = timers_.after(pump_interval, [this] { pump(); });
}

}  // namespace muster
