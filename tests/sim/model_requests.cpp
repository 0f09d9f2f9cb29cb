// The node's part that answers the controller, one function per message.
#include "tests/sim/model_node.h"

namespace muster::sim {

namespace {

constexpr Milliseconds quick{5};
constexpr Milliseconds slow{2'000};

constexpr const char* no_space = "cannot write code/train.py: no space left on device";

}  // namespace

ModelAttempt* ModelNode::find(const AttemptName& name) {
  const auto found = attempts_.find(name);
  return found == attempts_.end() ? nullptr : &found->second;
}

void ModelNode::on(const Ping& ping) {
  if (ping.heard_ms) lease_.heard(Milliseconds{*ping.heard_ms}, boot_now());
  send(Pong{std::chrono::floor<Milliseconds>(boot_now()).count(), clock_stamps(ping.sent_us)});
}

void ModelNode::on(const CheckNode& request) {
  CheckDone done{request.job, request.attempt, {}, {}};
  const bool fails = lies ? cluster_.dice.chance(50) : !is_healthy;
  if (fails) done.failures.push_back({"gpu.count", "found 7, wanted 8"});
  const auto newest = cluster_.checkpoints.find(request.job);
  const bool stale = cluster_.dice.chance(20);
  if (newest != cluster_.checkpoints.end() && !stale) done.newest_checkpoint = newest->second;
  reply(cluster_.dice.time(quick, slow), done);
}

void ModelNode::on(const StageTrees& request) {
  const AttemptName name{request.job, request.attempt};
  if (has_started(name)) return send(StageDone{request.job, request.attempt, {}});
  staging_ = Staging{request, {}};
  for (const Tree& tree : request.trees) {
    for (const TreeEntry& entry : tree.entries) {
      if (!blobs_.contains(entry.hash)) staging_->missing.insert(entry.hash);
    }
  }
  if (!staging_->missing.empty()) {
    WantBlobs wanted{request.job, request.attempt, {}};
    wanted.hashes.assign(staging_->missing.begin(), staging_->missing.end());
    send(wanted);
  }
  stage_if_complete();
}

void ModelNode::on(const BlobData& piece) {
  if (!staging_ || !piece.last) return;
  staging_->missing.erase(piece.hash);
  if (!disk_full) blobs_.insert(piece.hash);
  stage_if_complete();
}

void ModelNode::stage_if_complete() {
  if (!staging_->missing.empty()) return;
  StageDone done{staging_->request.job, staging_->request.attempt, {}};
  if (disk_full) done.error = no_space;
  staging_.reset();
  reply(cluster_.dice.time(quick, slow), done);
}

void ModelNode::on(const ReservePorts& request) {
  ModelAttempt& attempt = attempts_[{request.job, request.attempt}];
  PortsDone done{request.job, request.attempt, {}, {}};
  if (ports_taken) {
    done.error = "every port from 20000 to 29999 is taken";
  } else if (attempt.ports.empty()) {
    for (int i = 0; i < request.count; ++i) attempt.ports.push_back(request.port_min + i);
  }
  done.ports = attempt.ports;
  reply(quick, done);
}

void ModelNode::on(const StartRanks& request) {
  StartDone done{request.job, request.attempt, {}};
  if (leaving_) {
    done.error = "the agent of node " + id_.value + " is leaving";
    return send(done);
  }
  const AttemptName name{request.job, request.attempt};
  ModelAttempt& attempt = attempts_[name];
  if (!attempt.started) {
    attempt.started = true;
    for (const RankLaunch& launch : request.ranks) attempt.ranks.emplace_back().id = launch.rank;
    attempt.step = request.resume_from ? request.resume_from->step : 0;
    if (attempt.stop != ModelAttempt::Stop::idle) {
      attempt.start_error = "the attempt was stopped before";
    } else if (disk_full) {
      attempt.start_error = no_space;
    } else {
      run(name, attempt);
    }
  }
  done.error = attempt.start_error;
  reply(quick, done);
}

void ModelNode::on(const StopAttempt& request) {
  const AttemptName name{request.job, request.attempt};
  if (staging_ && staging_->request.job == request.job) staging_.reset();
  ModelAttempt& attempt = attempts_[name];
  attempt.clean_wanted = true;
  begin_stop(name, attempt, request.grace);
  report_clean(name);
}

void ModelNode::on(const CollectOutputs& request) {
  CollectDone done{request.job, request.attempt, {}};
  if (lies) done.error = "cannot read outputs/model: permission denied";
  reply(cluster_.dice.time(quick, slow), done);
}

void ModelNode::on(const OutputAck& ack) {
  const AttemptName name{ack.job, ack.attempt};
  ModelRank* rank = find_rank(name, ack.rank);
  if (rank == nullptr) return;
  rank->acked = std::max(rank->acked, std::min(ack.offset, rank->written));
  rank->sent = std::max(rank->sent, rank->acked);
  pump(name, attempts_[name]);
  report_clean(name);
}

void ModelNode::on(const ForgetAttempt& request) {
  const AttemptName name{request.job, request.attempt};
  if (staging_ && staging_->request.job == request.job) staging_.reset();
  ModelAttempt* attempt = find(name);
  if (attempt == nullptr) return;
  attempt->to_forget = true;
  kill(name, *attempt);
  forget_if_clean(name);
}

void ModelNode::on(const Retire&) {
  if (!attempts_.empty()) return;
  reset_connections();
  agent_is_gone();
}

}  // namespace muster::sim
