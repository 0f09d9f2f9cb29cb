#include "launcher/controller/controller.h"

#include <algorithm>

#include "launcher/controller/agents/clock_offset.h"
#include "launcher/controller/agents/work_message.h"
#include "launcher/controller/main.h"
#include "scheduler/apply/apply.h"
#include "scheduler/decide/decide.h"
#include "scheduler/model/record.h"
#include "scheduler/state/lookup.h"
#include "scheduler/state/rank_map.h"

namespace muster {

namespace {

// A full disk is looked at again after a second; nothing is performed meanwhile.
constexpr Milliseconds store_retry{1000};
// How old a step may be that other processes read.
constexpr Milliseconds steps_delay{1000};

constexpr Milliseconds idle_look{1000};

// One decision can open the way to the next; a core that never settles is a bug, not a long turn.
constexpr int decide_rounds_limit = 10000;

// Last words (agents are told to retire, a client that it was heard) get out within milliseconds.
constexpr Milliseconds last_words_pause{10};
constexpr std::chrono::seconds last_words_limit{1};

// What the controller was started for comes first.
constexpr Milliseconds first_cleaning{60'000};
constexpr Milliseconds cleaning_pause{24 * 3'600'000};
constexpr Milliseconds cleaning_limit{3'600'000};

}  // namespace

Controller::Controller(Timers& timers, ControllerSettings settings,
                       std::unique_ptr<Journal> journal, std::unique_ptr<Transport> transport,
                       Process process)
    : timers_(timers),
      settings_(std::move(settings)),
      journal_(std::move(journal)),
      transport_(std::move(transport)),
      process_(std::move(process)),
      last_busy_(timers.now()),
      logs_(settings_.home),
      pool_(timers, *transport_, settings_.launch),
      sender_(timers, settings_.home, state_, pool_, logs_, *this, settings_.secret_key,
              process_.run, settings_.launch.binary),
      relay_(state_, pool_),
      health_(timers, state_, pool_,
              [this](const ComputeTarget& target, const NodeAddress& node) {
                sender_.await(target, node);
              }),
      remedies_(timers, state_, pool_, process_.run, *this),
      deliveries_(settings_.home, settings_.launch.binary, state_, process_.run, *this),
      inbox_of_agents_(timers, settings_.home, state_, pool_, logs_, *this,
                       [this](const NodeId& node, const JobId& job, AttemptId attempt) {
                         return state_is_journal_ && is_over(state_, *journal_, node, job, attempt);
                       }),
      stalls_(
          timers, state_, *this,
          [this](const NodeId& node, const LookAtRanks& request) { pool_.send(node, request); }),
      folders_(timers, *journal_, pool_, [this](const JobId& job) {
        return state_is_journal_ && find_job(state_, job) == nullptr;
      }) {
  pool_.set_listeners(
      {&sender_, &stalls_, &remedies_, &inbox_of_agents_, &folders_, &health_, &relay_, this});
}

Requests::Context Controller::request_context() {
  return {state_,
          *journal_,
          rows_,
          pool_,
          relay_,
          health_,
          watchers_,
          settings_.launch.build_id,
          [this](Observation what, Answer answer) { observe(std::move(what), std::move(answer)); },
          [this] { shut_down(); },
          [this] { return timers_.wall_now(); }};
}

void Controller::client_gone(const std::shared_ptr<Session>& session) {
  relay_.client_gone(session);
  health_.client_gone(session);
}

Status Controller::start() {
  if (auto done = replay(); !done) return done;
  for (const auto& [id, job] : state_.jobs) observe(ControllerRestarted{id});
  for (const auto& [id, node] : state_.nodes) {
    const auto* lost = std::get_if<Unlinked>(&node.link);
    const bool is_sought = lost && lost->sought_since && (node.fault_drain || node.remedy);
    if (!std::holds_alternative<Linked>(node.link) && !is_sought) continue;
    const LinkFailure restarted{LinkFailureKind::lost, "the controller was restarted"};
    observe(LinkDown{id, lost ? lost->failure : restarted, {}, true});
  }
  ask_for_outputs_again();
  hold_unclean_nodes();
  post_turn();
  watch_idleness();
  clean_later(first_cleaning);
  return Done{};
}

// What had arrived and was not yet in place went with the controller before.
void Controller::ask_for_outputs_again() {
  for (const auto& [id, job] : state_.jobs) {
    const Attempt* attempt = active_attempt(job);
    const auto* collecting = attempt == nullptr ? nullptr : phase_of<Collecting>(*attempt);
    if (collecting == nullptr) continue;
    if (collecting->delivers && !inbox_of_agents_.has_left_files(id)) continue;
    for (const AttemptNode& node : attempt->nodes) {
      if (!has_delivered(node) || !is_active(node)) continue;
      observe(OutputsCollected{id, attempt->id, node.id, "the controller was restarted"});
    }
  }
}

// Their jobs have left State, and with them the nodes' addresses.
void Controller::hold_unclean_nodes() {
  for (const auto& [id, node] : state_.nodes) {
    if (!node.unclean || find_job(state_, node.unclean->job) != nullptr) continue;
    const auto records = journal_->records_of(node.unclean->job);
    if (!records) continue;
    for (const Record& record : *records) {
      if (const auto* job = record_as<JobSubmitted>(record)) sender_.want(job->target, id);
      if (const auto* job = record_as<ResumeRequested>(record)) sender_.want(job->target, id);
    }
  }
}

Status Controller::replay() {
  state_is_journal_ = false;
  auto records = journal_->load_live();
  if (!records) return records.error();
  state_ = State{};
  rows_.clear();
  attempt_nodes_.clear();
  for (const Record& record : *records) {
    apply(state_, record);
    rows_.note(record, state_);
    note_nodes(record);
  }
  state_is_journal_ = true;
  return Done{};
}

void Controller::observe(Observation what, Answer answer) {
  inbox_.push_back({std::move(what), std::move(answer)});
  post_turn();
}

void Controller::post_turn() {
  if (turn_alarm_) return;
  turn_alarm_ = timers_.after(Milliseconds{0}, [this] { turn(); });
}

// The loop: journal what was observed with what it leads to, then perform.
void Controller::turn() {
  turn_alarm_.reset();
  std::deque<Incoming> batch = std::move(inbox_);
  inbox_.clear();
  Status written = state_is_journal_ ? Status(Done{}) : replay();
  if (written) written = journal(batch);
  if (!written) {
    turn_failed(std::move(batch), written.error());
    return;
  }
  for (Incoming& incoming : batch) {
    if (incoming.answer) incoming.answer(Done{});
  }
  perform();
  schedule_wake();
}

Status Controller::journal(const std::deque<Incoming>& batch) {
  fresh_.clear();
  const Time now = timers_.wall_now();
  const auto take = [&](Record record) {
    apply(state_, record);
    rows_.note(record, state_);
    fresh_.push_back(std::move(record));
  };
  for (const Incoming& incoming : batch) take({now, incoming.what});
  for (int round = 0;; ++round) {
    check(round < decide_rounds_limit, "scheduler did not converge");
    const std::vector<Decision> decisions = decide(state_, now);
    if (decisions.empty()) break;
    for (const Decision& decision : decisions) take({now, decision});
  }
  if (fresh_.empty()) return Done{};
  return journal_->append(fresh_, rows_.take_changed());
}

// Clients are told that their request failed; what agents said waits for room.
void Controller::turn_failed(std::deque<Incoming> batch, const Error& why) {
  fresh_.clear();
  log_error(why.message);
  if (auto replayed = replay(); !replayed) log_error(replayed.error().message);
  std::deque<Incoming> again;
  for (Incoming& incoming : batch) {
    if (incoming.answer)
      incoming.answer(why);
    else
      again.push_back(std::move(incoming));
  }
  inbox_.insert(inbox_.begin(), again.begin(), again.end());
  turn_alarm_ = timers_.after(store_retry, [this] { turn(); });
}

void Controller::perform() {
  const std::vector<Record> records = std::move(fresh_);
  fresh_.clear();
  for (const Record& record : records) close_attempt(record);
  announce(records, state_, rows_, watchers_);
  for (const Record& record : records) forget(record);
  for (const Record& record : records) renew_lease(record);
  sender_.perform([this](const NodeWork& work) { return inbox_of_agents_.clears_away(work); });
  remedies_.perform(records);
  deliveries_.follow();
  stalls_.follow();
}

// Before anybody hears of the end: the files that nodes sent are put in place.
void Controller::close_attempt(const Record& record) {
  const auto* delivered = record_as<DeliveryBegun>(record);
  const auto* ended = record_as<AttemptEnded>(record);
  if (delivered == nullptr && ended == nullptr) return;
  const JobId& job = *job_of(record);
  const Status settled = inbox_of_agents_.settle_files(job);
  if (!settled) note(job, settled.error().message);
  if (ended == nullptr) return;
  inbox_of_agents_.attempt_over(ended->job, ended->attempt);
  stalls_.attempt_over(ended->job);
}

void Controller::note_nodes(const Record& record) {
  if (const auto* placed = record_as<AttemptPlaced>(record)) attempt_nodes_[placed->job].clear();
  for (const NodeId& node : nodes_given(record)) attempt_nodes_[*job_of(record)].push_back(node);
  if (const auto* over = record_as<JobEnded>(record)) attempt_nodes_.erase(over->job);
}

// A node that is not connected now says at its next Welcome what it still holds.
void Controller::forget(const Record& record) {
  note_nodes(record);
  if (const auto* ended = record_as<AttemptEnded>(record)) {
    for (const NodeId& node : attempt_nodes_[ended->job]) {
      pool_.send(node, ForgetAttempt{ended->job, ended->attempt});
    }
  } else if (const auto* left = record_as<NodeReleased>(record)) {
    pool_.send(left->node, ForgetAttempt{left->job, left->attempt});
  } else if (const auto* over = record_as<JobEnded>(record)) {
    sender_.job_over(over->job);
    folders_.job_over(over->job);
  }
}

// In a process of its own, which may take its time.
void Controller::clean_later(Milliseconds pause) {
  if (settings_.clean_command.empty() || !process_.run) return;
  cleaning_ = timers_.after(pause, [this] {
    process_.run(settings_.clean_command, cleaning_limit, [](const CommandEnded& ended) {
      if (!ended.error.empty()) log_warning("cannot clean the state directory: " + ended.error);
      for (const std::string& line : ended.lines) log_info(line);
    });
    clean_later(cleaning_pause);
  });
}

// Not before: a controller that died between Welcome and the journal leaves a node that is fenced
// as if it had not answered.
void Controller::renew_lease(const Record& record) {
  const auto* up = record_as<LinkUp>(record);
  AgentConnection* connection = up == nullptr ? nullptr : pool_.up(up->node);
  if (connection != nullptr) connection->renew_lease();
}

void Controller::schedule_wake() {
  wake_.reset();
  const Time now = timers_.wall_now();
  const auto next = next_wake(state_, now);
  if (next) wake_ = timers_.after(std::max(Milliseconds{1}, *next - now), [this] { post_turn(); });
}

// A host that is rebooting is waited for, where it is known how it is reached: nobody else would
// hear that it is back.
bool Controller::is_busy() const {
  if (!state_.jobs.empty() || process_.has_clients()) return true;
  return std::ranges::any_of(state_.nodes, [this](const auto& item) {
    return item.second.remedy && pool_.find(item.first) != nullptr;
  });
}

void Controller::watch_idleness() {
  const auto now = timers_.now();
  if (is_busy()) last_busy_ = now;
  if (settings_.idle_limit == Seconds{0}) return;
  if (now - last_busy_ >= settings_.idle_limit) {
    shut_down();
    return;
  }
  idle_ = timers_.after(idle_look, [this] { watch_idleness(); });
}

void Controller::shut_down() {
  end_when_sent(timers_.now() + last_words_limit);
}

void Controller::end_when_sent(SteadyTime deadline) {
  idle_ = timers_.after(last_words_pause, [this, deadline] {
    const bool late = timers_.now() >= deadline;
    if (late || pool_.queued_bytes() == 0)
      process_.end();
    else
      end_when_sent(deadline);
  });
}

void Controller::node_up(const NodeId& node, const Welcome& welcome) {
  const AgentConnection* connection = pool_.find(node);
  const std::string& address = connection->address().job_address;
  const Connected& reached = connection->reached();
  LinkUp up{node,
            welcome.boot_id,
            welcome.agent_id,
            welcome.host_name,
            address.empty() ? welcome.address : address,
            reached.profile,
            reached.methods,
            reached.through,
            welcome.gpus,
            reached.first_contact,
            connection->held_lease()};
  report_first_contact(up);
  observe(std::move(up));
}

// Once: it is on record from now on. Who waits for the node hears it, too.
void Controller::report_first_contact(const LinkUp& up) {
  if (up.first_contact.empty()) return;
  const Node* node = find_node(state_, up.node);
  if (node != nullptr && node->owner) return note(*node->owner, up.first_contact);
  log_warning(up.first_contact);
}

void Controller::node_down(const NodeId& node, const LinkFailure& failure) {
  const AgentConnection& lost = *pool_.find(node);
  LinkDown down{node, failure, on_this_host(lost.silence_at_loss())};
  down.silent = lost.silent_at_loss();
  observe(std::move(down));
}

void Controller::progress(const JobId& job, const JobEvent& event) {
  JobEvent told = event;
  if (const JobRow* row = rows_.find(job)) told.state = row->state;
  watchers_.tell(job, told);
  if (!event.step) return;
  rows_.note_step(job, *event.step);
  if (steps_) return;
  steps_ = timers_.after(steps_delay, [this] {  // of all jobs at once, without a record
    const auto stored = journal_->append({}, rows_.take_changed());
    if (!stored) log_error(stored.error().message);
    steps_.reset();
  });
}

void Controller::note(const JobId& job, const std::string& sentence) {
  log_warning("job " + job.value + ": " + sentence);
  JobEvent event;
  event.sentence = sentence;
  if (const JobRow* row = rows_.find(job)) event.state = row->state;
  watchers_.tell(job, event);
}

}  // namespace muster
