#include "launcher/controller/agents/stall_watchers.h"

#include <algorithm>

#include "scheduler/state/lookup.h"

namespace muster {

namespace {

// As often as agents read heartbeats.
constexpr Milliseconds look_interval{500};

// A look costs its nodes a fork and a second; suspicions that come and go need not all have one.
constexpr Seconds ask_interval{30};

std::set<RankId> ranks_without(const Attempt& attempt, const std::vector<RankId>& members) {
  std::set<RankId> others;
  for (const Rank& rank : attempt.ranks) others.insert(rank.id);
  for (const RankId member : members) others.erase(member);
  return others;
}

bool runs(const Job& job) {
  const Attempt* attempt = active_attempt(job);
  return attempt != nullptr && phase_of<Running>(*attempt) && !job.spec.muster.hang.off;
}

}  // namespace

StallWatchers::StallWatchers(Timers& timers, const State& state, Observer& observer, Ask ask)
    : timers_(timers), state_(state), observer_(observer), ask_(std::move(ask)) {}

Milliseconds StallWatchers::now() const {
  return std::chrono::duration_cast<Milliseconds>(timers_.now().time_since_epoch());
}

void StallWatchers::node_up(const NodeId& node, const Welcome&) {
  up_.insert(node);
  for (auto& [job, entry] : entries_) {
    if (entry->unheard.erase(node) != 0) entry->watch.unheard(!entry->unheard.empty(), now());
  }
}

void StallWatchers::node_down(const NodeId& node, const LinkFailure&) {
  up_.erase(node);
  for (auto& [job, entry] : entries_) {
    if (!entry->needed.contains(node)) continue;
    entry->unheard.insert(node);
    entry->watch.unheard(true, now());
  }
}

StallWatchers::Entry StallWatchers::make_entry(const Job& job, const Attempt& attempt) const {
  StallWatch::Subject subject;
  subject.job = job.id;
  subject.attempt = attempt.id;
  subject.settings = job.spec.muster.hang;
  subject.beats = beating_.contains(job.id);
  subject.told = attempt.stall;
  const Members& members = attempt.members;
  if (attempt.has_members()) subject.others = ranks_without(attempt, members.ranks);
  std::set<NodeId> needed;
  for (const Rank& rank : attempt.ranks) {
    subject.nodes.push_back(node_of(attempt, rank).id);
    if (!subject.others.contains(rank.id)) needed.insert(subject.nodes.back());
  }
  Entry entry{attempt.id,
              members.epoch,
              subject.nodes,
              needed,
              StallWatch(subject, now()),
              {},
              attempt.stall,
              {}};
  for (const NodeId& node : needed) {
    if (!up_.contains(node)) entry.unheard.insert(node);
  }
  entry.watch.unheard(!entry.unheard.empty(), now());
  for (const Rank& rank : attempt.ranks) {
    if (std::holds_alternative<RankDone>(rank.state)) entry.watch.ended(rank.id, now());
  }
  return entry;
}

// From the launch on: what ranks do first must not be missed.
StallWatchers::Entry* StallWatchers::entry_of(const JobId& job, AttemptId attempt) {
  const auto found = entries_.find(job);
  const Attempt* active = find_attempt(state_, job, attempt);
  const std::int64_t epoch = active == nullptr ? 0 : active->members.epoch;
  if (found != entries_.end() && found->second->attempt == attempt &&
      (active == nullptr || found->second->members_epoch == epoch)) {
    return found->second.get();
  }
  if (active == nullptr || !active->launched) return nullptr;
  const Job& owner = *find_job(state_, job);
  if (owner.spec.muster.hang.off) return nullptr;
  auto& entry = entries_[job];
  entry = std::make_unique<Entry>(make_entry(owner, *active));
  return entry.get();
}

StallWatchers::Entry* StallWatchers::owner(const NodeId& node, const JobId& job, AttemptId attempt,
                                           RankId rank) {
  Entry* entry = entry_of(job, attempt);
  const auto index = static_cast<std::size_t>(rank.value);
  const bool is_its = entry != nullptr && rank.value >= 0 && index < entry->nodes.size() &&
                      entry->nodes[index] == node && entry->needed.contains(node);
  return is_its ? entry : nullptr;
}

bool StallWatchers::take(const NodeId& node, const FromAgent& message, std::string_view) {
  if (const auto* progress = std::get_if<Progress>(&message)) {
    take_progress(node, *progress);
  } else if (const auto* piece = std::get_if<RankOutput>(&message)) {
    Entry* entry = owner(node, piece->job, piece->attempt, piece->rank);
    if (entry != nullptr) entry->watch.printed(now());
  } else if (const auto* ended = std::get_if<RankEnded>(&message)) {
    Entry* entry = owner(node, ended->job, ended->attempt, ended->rank);
    if (entry != nullptr) entry->watch.ended(ended->rank, now());
  } else if (const auto* news = std::get_if<RankActivity>(&message)) {
    take_activity(node, *news);
    return true;
  } else if (const auto* seen = std::get_if<RanksLookedAt>(&message)) {
    take_looks(node, *seen);
    return true;
  }
  return false;
}

void StallWatchers::take_progress(const NodeId& node, const Progress& progress) {
  Entry* entry = owner(node, progress.job, progress.attempt, progress.rank);
  if (entry == nullptr) return;
  if (progress.checkpoint) entry->watch.checkpointed(now());
  if (!progress.step) return;
  beating_.insert(progress.job);
  entry->watch.stepped(progress.rank, *progress.step, now());
}

void StallWatchers::take_activity(const NodeId& node, const RankActivity& news) {
  for (const RankDoing& doing : news.ranks) {
    Entry* entry = owner(node, news.job, news.attempt, doing.rank);
    if (entry != nullptr) entry->watch.does(doing, now());
  }
  Entry* entry = news.network_moves ? entry_of(news.job, news.attempt) : nullptr;
  if (entry != nullptr && entry->needed.contains(node))
    entry->watch.network(node, *news.network_moves, now());
}

void StallWatchers::take_looks(const NodeId& node, const RanksLookedAt& seen) {
  for (const RankLook& look : seen.ranks) {
    Entry* entry = owner(node, seen.job, seen.attempt, look.rank);
    if (entry != nullptr) entry->watch.seen(look.rank, look.lines, seen.storage);
  }
}

void StallWatchers::attempt_over(const JobId& job) {
  entries_.erase(job);
  if (find_job(state_, job) == nullptr) beating_.erase(job);
}

void StallWatchers::follow() {
  const auto& jobs = state_.jobs;
  const bool is_needed =
      std::ranges::any_of(jobs, [](const auto& item) { return runs(item.second); });
  if (!is_needed) return alarm_.reset();
  if (!alarm_) alarm_ = timers_.after(look_interval, [this] { look(); });
}

void StallWatchers::look() {
  alarm_.reset();
  for (const auto& [id, job] : state_.jobs) {
    if (!runs(job)) continue;
    if (Entry* entry = entry_of(id, active_attempt(job)->id)) look_at(*entry);
  }
  follow();
}

void StallWatchers::look_at(Entry& entry) {
  auto told = entry.watch.look(now());
  if (!told) return;
  const bool is_known =
      entry.told && entry.told->stall == told->stall && entry.told->rank == told->rank;
  entry.told = *told;
  if (told->stall == StallKind::suspect && !is_known) ask_for_look(*told, entry);
  observer_.observe(std::move(*told));
}

void StallWatchers::ask_for_look(const StallSeen& suspicion, Entry& entry) const {
  if (entry.asked_at && timers_.now() - *entry.asked_at < ask_interval) return;
  entry.asked_at = timers_.now();
  std::map<NodeId, LookAtRanks> requests;
  for (const RankId rank : entry.watch.suspects()) {
    const NodeId& node = entry.nodes[static_cast<std::size_t>(rank.value)];
    LookAtRanks& request = requests[node];
    request.job = suspicion.job;
    request.attempt = suspicion.attempt;
    request.ranks.push_back(rank);
    // Where nobody can be named, one of each node shows where all wait.
    const bool stands_for_all = !suspicion.rank && !request.suspect;
    if (rank == suspicion.rank || stands_for_all) request.suspect = rank;
  }
  for (const auto& [node, request] : requests) ask_(node, request);
}

}  // namespace muster
