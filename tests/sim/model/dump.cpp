#include "tests/sim/model/dump.h"

#include <type_traits>

namespace muster {

namespace {

// Any value of the model: scalars, ids, containers, and structs by their `fields`.
class Text {
 public:
  std::string take() { return std::move(text_); }

  template <class T>
  void put(const T& value) {
    if constexpr (std::is_same_v<T, bool>) {
      text_ += value ? "true" : "false";
    } else if constexpr (std::is_enum_v<T>) {
      text_ += std::to_string(static_cast<int>(value));
    } else if constexpr (std::is_arithmetic_v<T>) {
      text_ += std::to_string(value);
    } else if constexpr (requires { value.value; }) {
      put(value.value);
    } else {
      put_fields(value);
    }
  }

  void put(const std::string& value) { text_.append("'").append(value).append("'"); }
  void put(Time time) { text_ += std::to_string(to_ms(time)); }

  template <class Rep, class Period>
  void put(std::chrono::duration<Rep, Period> duration) {
    text_ += std::to_string(std::chrono::duration_cast<Milliseconds>(duration).count());
  }

  template <class T>
  void put(const std::optional<T>& value) {
    if (value) return put(*value);
    text_ += "none";
  }

  template <class T>
  void put(const std::vector<T>& values) {
    put_all(values);
  }
  template <class T>
  void put(const std::set<T>& values) {
    put_all(values);
  }
  template <class K, class V>
  void put(const std::map<K, V>& values) {
    put_all(values);
  }
  template <class A, class B>
  void put(const std::pair<A, B>& pair) {
    put(pair.first);
    text_ += ":";
    put(pair.second);
  }

  template <class T>
  void line(const std::string& name, const T& value) {
    text_ += name + " ";
    put(value);
    text_ += "\n";
  }

 private:
  template <class Range>
  void put_all(const Range& values) {
    text_ += "[";
    for (const auto& value : values) {
      put(value);
      text_ += " ";
    }
    text_ += "]";
  }

  template <class T>
  void put_fields(const T& value) {
    text_ += "{";
    T::fields(value, [&](const char* name, const auto& field) {
      text_ += std::string(name) + "=";
      put(field);
      text_ += " ";
    });
    text_ += "}";
  }

  std::string text_;
};

void put_phase(Text& text, const std::string& at, const AttemptPhase& phase) {
  text.line(at + ".phase", static_cast<int>(phase.index()));
  if (const auto* staging = std::get_if<Staging>(&phase)) text.line(at + ".since", staging->since);
  if (const auto* reserving = std::get_if<Reserving>(&phase)) {
    text.line(at + ".since", reserving->since);
  }
  if (const auto* starting = std::get_if<Starting>(&phase))
    text.line(at + ".since", starting->since);
  if (const auto* running = std::get_if<Running>(&phase)) text.line(at + ".since", running->since);
  if (const auto* stopping = std::get_if<Stopping>(&phase)) {
    text.line(at + ".since", stopping->since);
    text.line(at + ".why", stopping->why);
  }
  if (const auto* collecting = std::get_if<Collecting>(&phase)) {
    text.line(at + ".since", collecting->since);
    text.line(at + ".why", collecting->why);
  }
}

void put_membership(Text& text, const std::string& at, const AttemptNode& node) {
  text.line(at + ".taken_late", node.taken_late);
  text.line(at + ".asked_at", node.asked_at);
  text.line(at + ".join_begun", node.join_begun);
  text.line(at + ".ready", node.ready);
  text.line(at + ".ready_at", node.ready_at);
  text.line(at + ".member", node.member);
  text.line(at + ".members", std::vector<std::int64_t>{node.member_since, node.members_told});
  text.line(at + ".members_error", node.members_error);
  text.line(at + ".leaves", node.leaves);
  text.line(at + ".left_at", node.left_at);
  text.line(at + ".released", node.released);
}

void put_node(Text& text, const std::string& at, const AttemptNode& node) {
  text.line(at + ".id", node.id);
  text.line(at + ".checked", node.checked);
  text.line(at + ".staging_seen", node.staging_seen);
  text.line(at + ".staged", node.staged);
  text.line(at + ".ports", node.ports);
  text.line(at + ".started", node.started);
  text.line(at + ".clean", node.clean);
  text.line(at + ".fenced", node.fenced);
  text.line(at + ".collected", node.collected);
  text.line(at + ".collect_failures", node.collect_failures);
  text.line(at + ".collect_failed_at", node.collect_failed_at);
  text.line(at + ".collection_seen", node.collection_seen);
  text.line(at + ".agent", node.agent_id + " " + node.boot_id);
  text.line(at + ".agent_changed", node.agent_changed);
  text.line(at + ".boot_changed", node.boot_changed);
  text.line(at + ".link_lost_at", node.link_lost_at);
  text.line(at + ".silent_since", node.silent_since);
  text.line(at + ".joined_at", node.joined_at);
  text.line(at + ".unkillable_since", node.unkillable_since);
  put_membership(text, at, node);
}

void put_rank(Text& text, const std::string& at, const Rank& rank) {
  text.line(at + ".place", std::vector<int>{rank.node_index, rank.local_rank});
  text.line(at + ".state", static_cast<int>(rank.state.index()));
  if (const auto* running = std::get_if<RankRunning>(&rank.state)) {
    text.line(at + ".since", running->since);
  }
  if (const auto* done = std::get_if<RankDone>(&rank.state)) text.line(at + ".exit", done->exit);
  if (const auto* gone = std::get_if<RankGone>(&rank.state)) text.line(at + ".at", gone->at);
}

void put_attempt(Text& text, const std::string& at, const Attempt& attempt) {
  text.line(at + ".id", attempt.id);
  text.line(at + ".placed_at", attempt.placed_at);
  for (const TimeSpan& span : attempt.measured) {
    text.line(at + ".measured", std::vector<Time>{span.from, span.to});
  }
  put_phase(text, at, attempt.phase);
  for (std::size_t i = 0; i < attempt.nodes.size(); ++i) {
    put_node(text, at + ".node" + std::to_string(i), attempt.nodes[i]);
  }
  for (std::size_t i = 0; i < attempt.spares.size(); ++i) {
    put_node(text, at + ".spare" + std::to_string(i), attempt.spares[i]);
  }
  text.line(at + ".spares_dropped", attempt.spares_dropped);
  for (const Rank& rank : attempt.ranks) {
    put_rank(text, at + ".rank" + std::to_string(rank.id.value), rank);
  }
  text.line(at + ".processes", attempt.processes);
  text.line(at + ".members.epoch", attempt.members.epoch);
  text.line(at + ".members.ranks", attempt.members.ranks);
  text.line(at + ".resume_from", attempt.resume_from);
  text.line(at + ".newest_checkpoint", attempt.newest_checkpoint);
  text.line(at + ".last_step", attempt.last_step);
  text.line(at + ".stepped_at", attempt.stepped_at);
  text.line(at + ".passed_over", attempt.passed_over);
  text.line(at + ".running_since", attempt.running_since);
  text.line(at + ".stopped_at", attempt.stopped_at);
  text.line(at + ".launched", attempt.launched);
  text.line(at + ".stall", attempt.stall);
  text.line(at + ".faulted", attempt.faulted);
}

void put_past(Text& text, const std::string& at, const PastAttempt& past) {
  text.line(at + ".id", past.id);
  text.line(at + ".times", std::vector<Time>{past.started_at, past.ended_at});
  text.line(at + ".cause", past.cause);
  text.line(at + ".newest_checkpoint", past.newest_checkpoint);
  text.line(at + ".reschedule", past.reschedule);
  text.line(at + ".nodes", past.nodes);
  text.line(at + ".spares", past.spares);
  for (const RanThere& there : past.ran) {
    text.line(at + ".ran", there.node);
    text.line(at + ".ran.left", there.left);
    text.line(at + ".ran.until", there.until);
  }
  text.line(at + ".charged", past.charged);
  text.line(at + ".newer_checkpoint", past.newer_checkpoint);
  text.line(at + ".saved_last_step", past.saved_last_step);
}

void put_job_phase(Text& text, const std::string& at, const JobPhase& phase) {
  text.line(at + ".phase", static_cast<int>(phase.index()));
  if (const auto* queued = std::get_if<Queued>(&phase)) {
    text.line(at + ".reason", queued->reason);
    text.line(at + ".not_before", queued->not_before);
  }
  if (const auto* active = std::get_if<Active>(&phase)) {
    put_attempt(text, at + ".attempt", active->attempt);
  }
  if (const auto* backoff = std::get_if<Backoff>(&phase)) text.line(at + ".retry", backoff->retry);
}

void put_job(Text& text, const Job& job) {
  const std::string at = job.id.value;
  text.line(at + ".order", job.order);
  text.line(at + ".submitted_at", job.submitted_at);
  text.line(at + ".spec", job.spec);
  text.line(at + ".target", job.target);
  text.line(at + ".user", job.user);
  text.line(at + ".cancel", job.cancel);
  text.line(at + ".resume_step", job.resume_step);
  text.line(at + ".certified_because", job.certified_because);
  text.line(at + ".next_attempt", job.next_attempt);
  for (const PastAttempt& past : job.past) {
    put_past(text, at + ".past" + std::to_string(past.id.value), past);
  }
  text.line(at + ".waiting_since", job.waiting_since);
  text.line(at + ".waited_before", job.waited_before);
  text.line(at + ".measured_meanwhile", job.measured_meanwhile);
  text.line(at + ".ran_for", job.ran_for);
  text.line(at + ".abandoned", job.abandoned);
  text.line(at + ".abandoned_for", job.abandoned_for);
  text.line(at + ".abandoned_alike", job.abandoned_alike);
  if (job.asked) {
    text.line(at + ".asked.at", job.asked->at);
    text.line(at + ".asked.nodes", job.asked->nodes);
  }
  text.line(at + ".awaited", job.awaited);
  text.line(at + ".avoid", job.avoid);
  text.line(at + ".excluded", job.excluded);
  text.line(at + ".found", job.found);
  text.line(at + ".newest_checkpoint", job.newest_checkpoint);
  text.line(at + ".newest_certified", job.newest_certified);
  text.line(at + ".resumed_from", job.resumed_from);
  for (const Fork& fork : job.forks) {
    text.line(at + ".fork", std::vector<std::int64_t>{fork.epoch.value, fork.step});
  }
  put_job_phase(text, at, job.phase);
}

void put_known_node(Text& text, const Node& node) {
  const std::string at = node.id.value;
  text.line(at + ".link", static_cast<int>(node.link.index()));
  if (const auto* linked = std::get_if<Linked>(&node.link)) {
    text.line(at + ".up", linked->up);
    text.line(at + ".up.since", linked->since);
  }
  if (const auto* unlinked = std::get_if<Unlinked>(&node.link)) {
    text.line(at + ".failure", unlinked->failure);
    text.line(at + ".times", std::vector<Time>{unlinked->since, unlinked->failed_at});
    text.line(at + ".last", unlinked->last);
    text.line(at + ".sought_since", unlinked->sought_since);
  }
  text.line(at + ".drained", node.drained ? "yes " + node.drain_reason : std::string("no"));
  text.line(at + ".move_at", node.move_at);
  text.line(at + ".owner", node.owner);
  text.line(at + ".evidence", node.evidence);
  text.line(at + ".sound_since", node.sound_since);
  for (const NodeFault& fault : node.faults) text.line(at + ".fault", fault);
  text.line(at + ".faults_told", node.faults_told);
  text.line(at + ".faults_heard", node.faults_heard);
  text.line(at + ".faults_settled", node.faults_settled ? "yes" : std::string("no"));
  if (node.fault_drain) {
    text.line(at + ".fault_drain", node.fault_drain->reason);
    text.line(at + ".fault_drain.since", node.fault_drain->since);
    text.line(at + ".fault_drain.fault", node.fault_drain->fault);
    text.line(at + ".fault_drain.rebooted", node.fault_drain->rebooted);
  }
  if (node.remedy) {
    text.line(at + ".remedy", node.remedy->what);
    text.line(at + ".remedy.since", node.remedy->since);
    text.line(at + ".remedy.ended", node.remedy->ended);
  }
  text.line(at + ".remedies", node.remedies);
  text.line(at + ".is_away", node.is_away);
  if (node.set_aside) {
    text.line(at + ".set_aside", node.set_aside->reason);
    text.line(at + ".set_aside.times",
              std::vector<Time>{node.set_aside->since, node.set_aside->until});
  }
  if (node.notice) {
    text.line(at + ".notice", node.notice->source);
    text.line(at + ".notice.agent", node.notice->boot_id + " " + node.notice->agent_id);
    text.line(at + ".notice.since", node.notice->since);
    text.line(at + ".notice.leaves_at", node.notice->leaves_at);
  }
  if (node.unclean) {
    text.line(at + ".unclean", node.unclean->job);
    text.line(at + ".unclean.attempt", node.unclean->attempt);
    text.line(at + ".unclean.why", node.unclean->why);
  }
}

template <class Variant>
void put_variant(Text& text, const Variant& variant) {
  std::visit([&](const auto& one) { text.line(one.kind, one); }, variant);
}

}  // namespace

std::string describe(const State& state) {
  Text text;
  text.line("next_order", state.next_order);
  for (const auto& [id, node] : state.nodes) put_known_node(text, node);
  for (const auto& [target, breaker] : state.breakers) {
    text.line(target + ".breaker", breaker.reason);
    text.line(target + ".breaker.open_since", breaker.open_since);
    text.line(target + ".breaker.is_check", breaker.is_check);
    text.line(target + ".breaker.reset_at", breaker.reset_at);
  }
  for (const RemedyTaken& taken : state.remedies) {
    text.line("remedy", taken.node.value + " " + taken.serial + " " + taken.device + " " +
                            taken.check + " " + taken.code + " " + taken.job);
    text.line("remedy.times", std::vector<Time>{taken.at, taken.asked_at});
    text.line("remedy.step", taken.remedy);
  }
  for (const auto& [id, job] : state.jobs) put_job(text, job);
  return text.take();
}

std::string describe(const Decision& decision) {
  Text text;
  put_variant(text, decision);
  return text.take();
}

std::string describe(const Record& record) {
  Text text;
  std::visit([&](const auto& side) { put_variant(text, side); }, record.what);
  return text.take();
}

}  // namespace muster
