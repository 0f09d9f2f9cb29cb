#include "launcher/controller/agents/inbox.h"

#include <algorithm>

#include "launcher/controller/agents/clock_offset.h"
#include "launcher/controller/agents/work_message.h"
#include "launcher/controller/store/job_leavings.h"
#include "scheduler/failure/first_failure.h"
#include "scheduler/node/fault_drain.h"
#include "scheduler/state/lookup.h"
#include "scheduler/state/resume_point.h"
#include "scheduler/text/text.h"

namespace muster {

namespace {

// Nodes keep time to within this, or are taken to be off by what they are off.
constexpr Milliseconds clocks_in_step{1000};

// Of what an agent says: more is no help to anybody, and a broken one must not fill the journal.
constexpr std::size_t faults_most = 64;
constexpr std::size_t evidence_most = 3;
constexpr std::int64_t oldest_ms = 400LL * 24 * 3'600'000;

NodeFault within_limits(NodeFault fault) {
  for (std::string* text :
       {&fault.id, &fault.check, &fault.device, &fault.serial, &fault.code, &fault.what}) {
    limit_text(*text);
  }
  if (fault.evidence.size() > evidence_most) fault.evidence.resize(evidence_most);
  for (std::string& line : fault.evidence) limit_text(line);
  return fault;
}

// On the node's own clock; none of the future.
Milliseconds age_of(const NodeFault& fault, std::int64_t reported_ms) {
  const std::int64_t since_ms = to_ms(fault.since);
  if (since_ms >= reported_ms || since_ms < 0) return Milliseconds{0};
  return Milliseconds{std::min(reported_ms - since_ms, oldest_ms)};
}

// A person has said since that the node is sound, or armed the check again.
bool is_fixed(const State& state, const NodeId& id, const NodeFault& fault) {
  const Node* node = find_node(state, id);
  if (node && node->cleared_at && fault.since <= *node->cleared_at) return true;
  return is_rearmed_since(state, id, fault);
}

const NodeFault* find_fault(const std::vector<NodeFault>& faults, const std::string& id) {
  const auto found =
      std::ranges::find_if(faults, [&](const NodeFault& fault) { return fault.id == id; });
  return found == faults.end() ? nullptr : &*found;
}

// One record of progress in thirty seconds keeps a week's run below 20,000 records.
constexpr Milliseconds progress_interval{30000};

// Whether a run that misses a node still moves decides within ten seconds.
constexpr Milliseconds progress_in_doubt{2000};

// The same notice, told again after a reconnection, names its end a little differently.
constexpr Milliseconds same_notice{3000};

// The rank map of an attempt that is over is gone; no job has a million ranks.
constexpr std::int64_t late_ranks_limit = 1'000'000;

const Rank* known_rank(const State& state, const JobId& job, AttemptId attempt, RankId rank) {
  const Job* found = find_job(state, job);
  const Attempt* active = found == nullptr ? nullptr : active_attempt(*found);
  if (active == nullptr || active->id != attempt || rank.value < 0) return nullptr;
  if (rank.value >= static_cast<std::int64_t>(active->ranks.size())) return nullptr;
  return &active->ranks[static_cast<std::size_t>(rank.value)];
}

}  // namespace

AgentInbox::AgentInbox(Timers& timers, Home home, const State& state, AgentPool& pool,
                       RankLogs& logs, Observer& observer, IsOver is_over)
    : timers_(timers),
      home_(std::move(home)),
      state_(state),
      pool_(pool),
      logs_(logs),
      observer_(observer),
      is_over_(std::move(is_over)) {}

template <class Message>
void AgentInbox::observe_if_ours(const NodeId& node, const Message& message, Observation what) {
  const bool is_ours = node_index(message.job, message.attempt, node) >= 0 ||
                       is_spare(message.job, message.attempt, node);
  if (is_ours) observer_.observe(std::move(what));
}

bool AgentInbox::take(const NodeId& node, const FromAgent& message, std::string_view payload) {
  if (const auto* piece = std::get_if<RankOutput>(&message)) {
    output(node, *piece, payload);
  } else if (const auto* ended = std::get_if<RankEnded>(&message)) {
    rank_ended(node, *ended);
  } else if (const auto* seen = std::get_if<Progress>(&message)) {
    progress(node, *seen);
  } else if (const auto* data = std::get_if<FileData>(&message)) {
    file(node, *data, payload);
  } else if (const auto* checked = std::get_if<CheckDone>(&message)) {
    node_checked(node, *checked);
  } else if (const auto* staged = std::get_if<StageDone>(&message)) {
    observe_if_ours(node, *staged,
                    NodeStaged{staged->job, staged->attempt, node, staged->error,
                               staged->lasting, staged->streamed});
  } else if (const auto* moved = std::get_if<StageMoved>(&message)) {
    StagingSeen staging{moved->job, moved->attempt, node, 0, moved->doing};
    limit_text(staging.doing);
    observe_if_ours(node, *moved, std::move(staging));
  } else if (const auto* ports = std::get_if<PortsDone>(&message)) {
    observe_if_ours(node, *ports,
                    PortsReserved{ports->job, ports->attempt, node, ports->ports, ports->error});
  } else if (const auto* started = std::get_if<StartDone>(&message)) {
    observe_if_ours(node, *started,
                    NodeStarted{started->job, started->attempt, node, started->error,
                                started->directory, started->lasting});
  } else if (const auto* members = std::get_if<MembersSet>(&message)) {
    observe_if_ours(
        node, *members,
        MembersTold{members->job, members->attempt, node, members->members_epoch, members->error});
  } else if (const auto* clean_now = std::get_if<AttemptClean>(&message)) {
    clean(node, *clean_now);
  } else if (const auto* collected = std::get_if<CollectDone>(&message)) {
    outputs_sent(node, *collected);
  } else if (const auto* notice = std::get_if<NoticeSeen>(&message)) {
    notice_seen(node, *notice);
  } else if (const auto* faults = std::get_if<FaultsTold>(&message)) {
    faults_told(node, *faults);
  } else {
    return false;
  }
  return true;
}

void AgentInbox::node_up(const NodeId& node, const Welcome& welcome) {
  std::erase_if(beats_, [&](const auto& item) { return item.first.second == node; });
  faults_.erase(node);
  std::erase_if(clearing_, [&](const HeldBy& one) { return std::get<NodeId>(one) == node; });
  for (const HeldAttempt& held : welcome.held) {
    if (!is_over_(node, held.job, held.attempt)) continue;
    clearing_.emplace(node, held.job, held.attempt);
    pool_.send(node, StopAttempt{held.job, held.attempt, "SIGKILL", Milliseconds{0}});
  }
}

bool AgentInbox::clears_away(const NodeWork& work) const {
  return clearing_.contains({work.node, work.job, work.attempt});
}

// By then every byte that its ranks wrote has arrived.
void AgentInbox::clean(const NodeId& node, const AttemptClean& clean) {
  const HeldBy held{node, clean.job, clean.attempt};
  if (clearing_.contains(held) || is_over_(node, clean.job, clean.attempt)) {
    if (!clean.unkillable.empty()) return;
    pool_.send(node, ForgetAttempt{clean.job, clean.attempt});
    if (clearing_.erase(held) != 0) observer_.post_turn();
    return;
  }
  const Node* known = find_node(state_, node);
  const bool was_stuck = known != nullptr && known->unclean && known->unclean->job == clean.job;
  if (was_stuck && !clean.unkillable.empty()) return;  // which is known
  if (!was_stuck && node_index(clean.job, clean.attempt, node) < 0) return;
  observer_.observe(NodeClean{clean.job, clean.attempt, node, clean.newest_checkpoint,
                              clean.unkillable, clean.newest_certified});
}

// The name in the message becomes a path: only names that the journal holds get this far.
bool AgentInbox::is_rank_of(const NodeId& node, const JobId& job, AttemptId attempt,
                            RankId rank) const {
  const int index = node_index(job, attempt, node);
  const bool is_cleared = clearing_.contains({node, job, attempt});
  if (index < 0 || is_cleared) {
    const bool is_rank = rank >= mpirun_log && rank.value < late_ranks_limit;
    return is_rank &&
           (is_cleared || still_stops(state_, node, job, attempt) || is_over_(node, job, attempt));
  }
  if (rank == mpirun_log) return index == 0;
  const Rank* known = known_rank(state_, job, attempt, rank);
  return known != nullptr && known->node_index == index;
}

// Bytes that cannot be stored are not acknowledged; the link is dropped so that the agent sends
// them again from what is safe, by which time there may be room.
void AgentInbox::output(const NodeId& node, const RankOutput& piece, std::string_view payload) {
  if (!is_rank_of(node, piece.job, piece.attempt, piece.rank)) return;
  auto size = logs_.write(piece.job, piece.attempt, piece.rank, piece.offset, payload);
  if (!size) {
    observer_.note(piece.job, size.error().message);
    if (auto* connection = pool_.up(node)) {
      connection->drop({LinkFailureKind::lost, size.error().message});
    }
    return;
  }
  pool_.send(node, OutputAck{piece.job, piece.attempt, piece.rank, *size});
  note_first_output(node, piece);
}

// Told again by a rank that begins to write after the controller was restarted: the first counts.
void AgentInbox::note_first_output(const NodeId& node, const RankOutput& piece) {
  if (piece.offset != 0 || node_index(piece.job, piece.attempt, node) < 0) return;
  if (!wrote_[piece.job].insert(node).second) return;
  observer_.observe(FirstOutputSeen{piece.job, piece.attempt, node});
}

void AgentInbox::rank_ended(const NodeId& node, const RankEnded& ended) {
  const Rank* rank = known_rank(state_, ended.job, ended.attempt, ended.rank);
  if (rank == nullptr || std::holds_alternative<RankDone>(rank->state)) return;
  if (rank->node_index != node_index(ended.job, ended.attempt, node)) return;
  const Seen& seen = seen_[ended.job];
  if (seen.step && seen.step != seen.journaled_step) {
    journal_step(ended.job, ended.attempt, std::nullopt);
  }
  RankExited exited;
  exited.job = ended.job;
  exited.attempt = ended.attempt;
  exited.node = node;
  exited.rank = ended.rank;
  exited.status = ended.status;
  exited.asked_to_stop = ended.asked_to_stop;
  exited.at_ms = to_ms(timers_.wall_now()) - ended.age_us / 1000;
  exited.last_lines = ended.last_lines;
  exited.when = when_of(node, ended);
  exited.evidence = ended.evidence;
  limit_text(exited.evidence.error);
  if (counts_as_failure(exited)) exited.rules = rules_of(ended.job).judge(known_exit(exited));
  observer_.observe(exited);
}

// Kept, because a thousand ranks that fail together ask the same patterns.
const RuleBook& AgentInbox::rules_of(const JobId& job) {
  return rules_.try_emplace(job, find_job(state_, job)->spec.muster).first->second;
}

std::optional<ClockInterval> AgentInbox::when_of(const NodeId& node, const RankEnded& ended) {
  const AgentConnection* connection = pool_.find(node);
  if (connection == nullptr || !ended.span) return std::nullopt;
  return on_this_host(
      connection->clock().to_controller({ended.span->earliest_us, ended.span->latest_us}));
}

void AgentInbox::journal_step(const JobId& job, AttemptId attempt,
                              const std::optional<CheckpointRef>& checkpoint) {
  Seen& seen = seen_[job];
  seen.journaled = timers_.wall_now();
  seen.journaled_step = seen.step;
  observer_.observe(ProgressSeen{job, attempt, seen.step.value_or(0), checkpoint});
}

// A node whose ranks have all written a heartbeat can be made a member; agents tell them again
// after every Welcome.
void AgentInbox::note_beat(const NodeId& node, const Progress& progress) {
  const Attempt& attempt = *find_attempt(state_, progress.job, progress.attempt);
  const int index = node_index(progress.job, progress.attempt, node);
  const AttemptNode& joining = attempt.nodes[static_cast<std::size_t>(index)];
  const Rank* rank = known_rank(state_, progress.job, progress.attempt, progress.rank);
  const bool waits = is_getting_ready(joining) && is_active(joining);
  if (!waits || rank == nullptr || rank->node_index != index) return;
  auto& beats = beats_[{progress.job, node}];
  beats.insert(progress.rank);
  if (beats.size() < ranks_on(attempt, static_cast<std::size_t>(index)).size()) return;
  beats_.erase({progress.job, node});
  observer_.observe(NodeReady{progress.job, progress.attempt, node});
}

void AgentInbox::progress(const NodeId& node, const Progress& progress) {
  const int index = node_index(progress.job, progress.attempt, node);
  if (index < 0) return;
  if (progress.step) note_beat(node, progress);
  Seen& seen = seen_[progress.job];
  if (progress.step) seen.step = std::max(seen.step.value_or(0), *progress.step);
  const bool sealed =
      progress.checkpoint && (!seen.checkpoint || !is_same(*progress.checkpoint, *seen.checkpoint));
  if (progress.checkpoint) seen.checkpoint = progress.checkpoint;
  const Milliseconds interval = misses_a_node(progress.job) ? progress_in_doubt : progress_interval;
  const Rank* rank = known_rank(state_, progress.job, progress.attempt, progress.rank);
  const bool is_last = rank != nullptr && std::holds_alternative<RankDone>(rank->state);
  const bool due = !seen.journaled || timers_.wall_now() - *seen.journaled >= interval || is_last;
  if (sealed || (seen.step && due)) {
    journal_step(progress.job, progress.attempt, progress.checkpoint);
  }
  if (std::string note = progress.note; !note.empty()) {
    limit_text(note);
    observer_.note(progress.job, "node " + node.value + ": " + without_controls(note));
  }
  // What ranks write for muster comes first; of nodes whose programs tell others the lowest.
  const int from = progress.is_read_off ? index + 1 : 0;
  if (!progress.metrics.empty()) seen.metrics_from = std::min(seen.metrics_from, from);
  const bool takes = !progress.metrics.empty() && from == seen.metrics_from;
  if (takes) {
    std::string lines;
    for (const std::string& line : progress.metrics) lines += line + "\n";
    if (auto done = logs_.append_metrics(progress.job, progress.attempt, lines); !done) {
      observer_.note(progress.job, done.error().message);
    }
  }
  JobEvent event;
  event.attempt = progress.attempt.value;
  event.step = seen.step;
  if (takes) event.metrics = progress.metrics.back();
  observer_.progress(progress.job, event);
}

bool AgentInbox::misses_a_node(const JobId& job) const {
  const Attempt* active = active_attempt(*find_job(state_, job));
  return std::ranges::any_of(active->nodes, [](const AttemptNode& node) {
    return node.agent && node.agent->lost && is_active(node);
  });
}

bool AgentInbox::is_spare(const JobId& job, AttemptId attempt, const NodeId& node) const {
  const Attempt* active = find_attempt(state_, job, attempt);
  return active != nullptr && find_spare(*active, node) != nullptr;
}

void AgentInbox::node_checked(const NodeId& node, const CheckDone& done) {
  NodeChecked seen{done.job,
                   done.attempt,
                   node,
                   done.failures,
                   done.newest_checkpoint,
                   done.newest_certified,
                   done.asked_checkpoint,
                   done.quarantined};
  const Job* job = find_job(state_, done.job);
  const AgentConnection* agent = pool_.find(node);
  const bool is_unmeasured = agent != nullptr && !agent->welcome().measures;
  if (job != nullptr && is_unmeasured && seen.failures.empty()) {
    seen.failures = failures_unmeasured(state_, *job, node);
  }
  observe_if_ours(node, done, std::move(seen));
}

// Agents tell it again after every greeting: what is known is no news.
void AgentInbox::notice_seen(const NodeId& node, const NoticeSeen& seen) {
  const Node* known = find_node(state_, node);
  const LeaveNotice* notice = known != nullptr && known->notice ? &*known->notice : nullptr;
  const AgentConnection* connection = pool_.find(node);
  const Welcome agent = connection == nullptr ? Welcome{} : connection->welcome();
  const bool is_about_it = notice != nullptr && notice->source == seen.source;
  const bool is_same = is_about_it && notice->agent_id == agent.agent_id;
  if (seen.over && !is_about_it) return;
  if (!seen.over && is_same && notice->leaves_at.has_value() == seen.leaves_in.has_value()) {
    if (!seen.leaves_in) return;
    const Milliseconds apart = timers_.wall_now() + *seen.leaves_in - *notice->leaves_at;
    if (std::chrono::abs(apart) < same_notice) return;
  }
  observer_.observe(
      NodeNotice{node, seen.leaves_in, seen.source, seen.over, agent.boot_id, agent.agent_id});
}

// Told again after every greeting. Times become those of the controller's clock, by which breakers
// and people say what is mended; those of a clock that is out of step are taken for what they are
// said to be ago.
void AgentInbox::faults_told(const NodeId& node, const FaultsTold& told) {
  const Time now = timers_.wall_now();
  const Node* known = find_node(state_, node);
  const auto last = faults_.find(node);
  const bool is_first = last == faults_.end();
  // What was told last may not be in the journal yet.
  const std::vector<NodeFault> before = !is_first ? last->second.faults
                                        : known   ? known->faults
                                                  : std::vector<NodeFault>{};
  NodeFaultsSeen seen{node, {}, told.settled, known ? known->owner : std::nullopt};
  FaultsFixed mended;
  for (const NodeFault& fault : told.faults) {
    if (seen.faults.size() == faults_most) break;
    NodeFault& one = seen.faults.emplace_back(within_limits(fault));
    one.since = now - age_of(fault, told.now_ms);
    const NodeFault* same = find_fault(before, one.id);
    if (same && std::chrono::abs(one.since - same->since) < clocks_in_step) one.since = same->since;
    if (is_fixed(state_, node, one)) mended.ids.push_back(fault.id);
  }
  if (!mended.ids.empty()) pool_.send(node, mended);
  const bool was_settled = !is_first ? last->second.settled : known && known->faults_settled;
  const bool has_some = !before.empty() || (known && known->fault_drain);
  const bool is_asked = is_first && known && known->fault_drain;
  const bool settles = is_asked || (has_some && was_settled != seen.settled);
  faults_[node] = seen;
  if (settles || !call_for_the_same(before, seen.faults)) observer_.observe(std::move(seen));
}

int AgentInbox::node_index(const JobId& job, AttemptId attempt, const NodeId& node) const {
  const Attempt* active = find_attempt(state_, job, attempt);
  if (active == nullptr) return -1;
  std::size_t& place = places_[node];
  const auto is_it = [&](const AttemptNode& one) { return one.id == node && !is_released(one); };
  if (place < active->nodes.size() && is_it(active->nodes[place])) return static_cast<int>(place);
  const auto at = std::ranges::find_if(active->nodes, is_it);
  if (at == active->nodes.end()) return -1;
  place = static_cast<std::size_t>(at - active->nodes.begin());
  return static_cast<int>(place);
}

void AgentInbox::attempt_over(const JobId& job, AttemptId attempt) {
  logs_.close_attempt(job, attempt);
  seen_.erase(job);
  wrote_.erase(job);
  rules_.erase(job);
  std::erase_if(arrivals_, [&](const auto& arrival) { return arrival.first.first == job; });
  std::erase_if(beats_, [&](const auto& item) { return item.first.first == job; });
}

}  // namespace muster
