// The node's part that runs ranks: what they do by themselves, how they are ended, and the proof.
#include <algorithm>

#include "tests/sim/model_node.h"

namespace muster::sim {

namespace {

constexpr Milliseconds scan_time{50};
constexpr Milliseconds kernel_limit{60'000};  // after SIGKILL; then a process counts as stuck
constexpr std::int64_t steps_per_report = 10;
constexpr int sigterm = 15;
constexpr int sigkill = 9;

CheckpointRef sealed(std::int64_t step, AttemptId attempt) {
  return {step, "/ckpt/s" + std::to_string(step) + "-g" + std::to_string(epoch_of(attempt).value)};
}

}  // namespace

ModelRank* ModelNode::find_rank(const AttemptName& name, RankId id) {
  ModelAttempt* attempt = find(name);
  if (attempt == nullptr) return nullptr;
  const auto is_it = [id](const ModelRank& rank) { return rank.id == id; };
  const auto found = std::find_if(attempt->ranks.begin(), attempt->ranks.end(), is_it);
  return found == attempt->ranks.end() ? nullptr : &*found;
}

// ---- what ranks do ----------------------------------------------------------------------------

void ModelNode::run(const AttemptName& name, ModelAttempt& attempt) {
  if (being_mended_)
    cluster_.promises.broken("I13: ranks start on " + id_.value + " under a reset");
  const Program& program = attempt.program = cluster_.program(name);
  for (ModelRank& rank : attempt.ranks) {
    rank.alive = true;
    cluster_.promises.rank_starts(id_, name.first, name.second);
    if (program.failing == rank.id) {
      plan_end(name, rank.id, program.fails_after, program.failure);
    }
    if (!program.hangs) plan_end(name, rank.id, program.runs_for, {});
    if (rank.id.value % cluster_.speaking_every == 0) speak(name, rank.id);
  }
  make_progress(name);
}

void ModelNode::plan_end(const AttemptName& name, RankId id, Milliseconds delay,
                         ExitStatus status) {
  later(delay, [this, name, id, status] {
    if (ModelRank* rank = find_rank(name, id)) end_rank(name, *rank, status);
  });
}

// `seen`: how, where an agent was there to see it.
void ModelNode::end_rank(const AttemptName& name, ModelRank& rank, std::optional<ExitStatus> seen) {
  if (!rank.alive) return;
  rank.alive = false;
  if (!rank.stuck) cluster_.promises.rank_is_gone(id_, name.first, name.second);
  if (!seen) return;
  ModelAttempt& attempt = attempts_[name];
  rank.exit = seen;
  rank.ended_at = cluster_.events.now();
  rank.asked_to_stop = attempt.stop != ModelAttempt::Stop::idle;
  pump(name, attempt);
  report_end(name, rank);
  if (attempt.stop != ModelAttempt::Stop::stopping || attempt.has_alive()) return;
  later(scan_time, [this, name, round = attempt.stop_round] { prove(name, round); });
}

void ModelNode::report_end(const AttemptName& name, const ModelRank& rank) {
  RankEnded ended;
  ended.job = name.first;
  ended.attempt = name.second;
  ended.rank = rank.id;
  ended.status = *rank.exit;
  ended.asked_to_stop = rank.asked_to_stop;
  ended.age_us = (cluster_.events.now() - rank.ended_at).count() * 1000;
  ended.span = ExitSpan{raw_us(rank.ended_at), raw_us(rank.ended_at)};
  send(ended);
}

void ModelNode::speak(const AttemptName& name, RankId id) {
  ModelRank* rank = find_rank(name, id);
  if (rank == nullptr || !rank->alive || rank->stuck) return;
  rank->written += line_bytes * (1 + cluster_.dice.upto(20));
  cluster_.written[{name, id}] = rank->written;
  cluster_.node_of[{name, id}] = id_;
  pump(name, attempts_[name]);
  later(cluster_.dice.time(Milliseconds{500}, Milliseconds{8'000}),
        [this, name, id] { speak(name, id); });
}

// Told by the node's first rank; rank 0 seals the checkpoints.
void ModelNode::make_progress(const AttemptName& name) {
  ModelAttempt* attempt = find(name);
  if (attempt == nullptr || attempt->ranks.empty() || !attempt->ranks.front().alive) return;
  Progress progress;
  progress.job = name.first;
  progress.attempt = name.second;
  progress.rank = attempt->ranks.front().id;
  attempt->step += steps_per_report;
  progress.step = attempt->step;
  if (progress.rank == RankId{0}) {
    CheckpointRef& newest = cluster_.checkpoints[name.first];
    if (attempt->step > newest.step) newest = sealed(attempt->step, name.second);
    progress.checkpoint = newest;
  }
  send(progress);
  later(cluster_.progress_interval + cluster_.dice.time(Milliseconds{0}, Milliseconds{3'000}),
        [this, name] { make_progress(name); });
}

void ModelNode::pump(const AttemptName& name, ModelAttempt& attempt) {
  if (!line_) return;
  for (ModelRank& rank : attempt.ranks) {
    if (rank.sent >= rank.written) continue;
    const std::string text = output_text(name, rank.id, rank.sent, rank.written);
    send(RankOutput{name.first, name.second, rank.id, rank.sent}, text);
    rank.sent = rank.written;
  }
}

void ModelNode::go_on() {
  for (auto& [name, attempt] : attempts_) {
    if (!std::exchange(attempt.program.hangs, false)) continue;
    for (const ModelRank& rank : attempt.ranks) {
      plan_end(name, rank.id, attempt.program.runs_for, {});
    }
  }
}

void ModelNode::kill_a_rank() {
  for (auto& [name, attempt] : attempts_) {
    if (!attempt.has_alive() || !serving_) continue;
    ModelRank& victim = attempt.ranks[static_cast<std::size_t>(
        cluster_.dice.upto(static_cast<int>(attempt.ranks.size())))];
    return end_rank(name, victim, ExitStatus{0, sigkill});
  }
}

// ---- how they are ended -----------------------------------------------------------------------

void ModelNode::begin_stop(const AttemptName& name, ModelAttempt& attempt, Milliseconds grace) {
  if (attempt.stop == ModelAttempt::Stop::clean && !attempt.unkillable.empty()) {
    return kill(name, attempt);
  }
  if (cluster_.planted.lies_clean) attempt.stop = ModelAttempt::Stop::clean;
  if (attempt.stop == ModelAttempt::Stop::clean) return;
  const bool is_first = attempt.stop == ModelAttempt::Stop::idle;
  attempt.stop = ModelAttempt::Stop::stopping;
  const int round = attempt.stop_round;
  for (const ModelRank& rank : attempt.ranks) {
    if (!is_first || !rank.alive || processes_stick || cluster_.dice.chance(10)) continue;
    const Milliseconds most = std::min(grace, Milliseconds{5'000});
    plan_end(name, rank.id, cluster_.dice.time(Milliseconds{0}, most), ExitStatus{0, sigterm});
  }
  if (!attempt.has_alive()) return later(scan_time, [this, name, round] { prove(name, round); });
  later(grace, [this, name, round] {
    ModelAttempt* late = find(name);
    if (late != nullptr && late->stop_round == round) kill(name, *late);
  });
}

void ModelNode::kill(const AttemptName& name, ModelAttempt& attempt) {
  const bool is_clean = attempt.stop == ModelAttempt::Stop::clean && attempt.unkillable.empty();
  if (is_clean && (cluster_.planted.lies_clean || !attempt.has_alive())) return;
  if (!is_clean) attempt.stop = ModelAttempt::Stop::stopping;
  const int round = ++attempt.stop_round;
  kill_ranks(name, attempt);
  const Milliseconds delay = processes_stick && attempt.has_alive() ? kernel_limit : scan_time;
  later(delay, [this, name, round] { prove(name, round); });
}

// Nobody sees how they end when no agent is there.
void ModelNode::kill_ranks(const AttemptName& name, ModelAttempt& attempt) {
  for (ModelRank& rank : attempt.ranks) {
    if (!processes_stick) {
      end_rank(name, rank, serving_ ? std::optional(ExitStatus{0, sigkill}) : std::nullopt);
    } else if (rank.alive && !rank.stuck) {
      rank.stuck = true;
      cluster_.promises.rank_is_gone(id_, name.first, name.second);
    }
  }
}

void ModelNode::prove(const AttemptName& name, int round) {
  ModelAttempt* attempt = find(name);
  if (attempt == nullptr || attempt->stop_round != round) return;
  attempt->stop = ModelAttempt::Stop::clean;
  attempt->unkillable.clear();
  if (attempt->has_alive()) attempt->unkillable.push_back("python (pid 7)");
  attempt->ports.clear();
  report_clean(name);
  forget_if_clean(name);
}

void ModelNode::report_clean(const AttemptName& name) {
  ModelAttempt* attempt = find(name);
  if (attempt == nullptr || !line_ || !attempt->clean_wanted) return;
  if (attempt->stop != ModelAttempt::Stop::clean || !attempt->has_sent_everything()) return;
  attempt->clean_wanted = false;
  AttemptClean clean{name.first, name.second, {}, attempt->unkillable};
  const auto newest = cluster_.checkpoints.find(name.first);
  if (newest != cluster_.checkpoints.end()) clean.newest_checkpoint = newest->second;
  reply(scan_time, clean);
}

void ModelNode::forget_if_clean(const AttemptName& name) {
  ModelAttempt* attempt = find(name);
  const bool is_over = attempt != nullptr && attempt->to_forget && !attempt->has_alive() &&
                       attempt->stop == ModelAttempt::Stop::clean;
  if (is_over) attempts_.erase(name);
}

}  // namespace muster::sim
