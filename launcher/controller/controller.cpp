#include "launcher/controller/controller.h"

#include <boost/asio/post.hpp>

#include "launcher/controller/announcer.h"
#include "launcher/controller/controller_log.h"
#include "launcher/controller/wall_clock.h"
#include "scheduler/apply.h"
#include "scheduler/decide.h"
#include "scheduler/record_subject.h"

namespace muster {

namespace {

// A full disk is looked at again after a second; nothing is performed meanwhile.
constexpr Milliseconds store_retry{1000};

// One decision can open the way to the next; a core that never settles is a bug, not a long turn.
constexpr int decide_rounds_limit = 10000;

}  // namespace

Controller::Controller(boost::asio::io_context& io, ControllerSettings settings,
                       std::unique_ptr<Store> store, std::unique_ptr<Transport> transport)
    : io_(io),
      settings_(std::move(settings)),
      store_(std::move(store)),
      transport_(std::move(transport)),
      wake_(io),
      idle_(io),
      last_busy_(std::chrono::steady_clock::now()),
      logs_(settings_.home),
      pool_(io, *transport_, settings_.launch,
            {[this](const NodeId& node, const Welcome& welcome) { agent_up(node, welcome); },
             [this](const NodeId& node, FromAgent message, std::string payload) {
               agent_said(node, message, payload);
             },
             [this](const NodeId& node, LinkFailure failure) {
               sender_.node_down(node);
               relay_.node_down(node);
               observe(LinkDown{node, std::move(failure)});
             }}),
      sender_(io, settings_.home, pool_,
              {[this](const NodeWork& work, const std::string& error) {
                observe(NodeStaged{work.job, work.attempt, work.node, error});
              },
               [this](StagingSeen seen) { observe(std::move(seen)); }}),
      relay_(pool_),
      inbox_of_agents_(settings_.home, state_, pool_, logs_,
                       {[this](Observation what) { observe(std::move(what)); },
                        [this](const JobId& job, const JobEvent& event) { progress(job, event); },
                        [this](const JobId& job, const std::string& sentence) {
                          note(job, sentence);
                        }}),
      requests_({state_, *store_, rows_, pool_, relay_, watchers_, settings_.launch.build_id,
                 [this](Observation what, Answer answer) {
                   observe(std::move(what), std::move(answer));
                 },
                 [this] { shut_down(); }}),
      server_(
          io,
          [this](const std::shared_ptr<Session>& session, ToController request,
                 std::string payload) {
            requests_.handle(session, std::move(request), payload);
          },
          [this](const std::shared_ptr<Session>& session) { relay_.client_gone(session); }) {}

Status Controller::start() {
  if (auto done = replay(); !done) return done;
  if (auto done = server_.listen(settings_.home.socket()); !done) return done;
  for (const auto& [id, node] : state_.nodes) {
    if (!std::holds_alternative<Linked>(node.link)) continue;
    observe(LinkDown{id, {LinkFailureKind::lost, "the controller was restarted"}});
  }
  post_turn();
  watch_idleness();
  return Done{};
}

Status Controller::replay() {
  auto records = store_->load_live();
  if (!records) return records.error();
  state_ = State{};
  rows_.clear();
  for (const Record& record : *records) {
    apply(state_, record);
    rows_.note(record, state_);
  }
  rows_.take_changed();
  return Done{};
}

void Controller::observe(Observation what, Answer answer) {
  inbox_.push_back({std::move(what), std::move(answer)});
  post_turn();
}

void Controller::post_turn() {
  if (turn_posted_) return;
  turn_posted_ = true;
  boost::asio::post(io_, [this] { turn(); });
}

// The loop: journal what was observed with what it leads to, then perform.
void Controller::turn() {
  turn_posted_ = false;
  std::deque<Incoming> batch = std::move(inbox_);
  inbox_.clear();
  if (auto written = journal(batch); !written) {
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
  const Time now = wall_now();
  const auto take = [&](Record record) {
    apply(state_, record);
    rows_.note(record, state_);
    fresh_.push_back(std::move(record));
  };
  for (const Incoming& incoming : batch) take({now, incoming.what});
  for (int round = 0;; ++round) {
    check(round < decide_rounds_limit, "decide does not come to rest");
    const std::vector<Decision> decisions = decide(state_, now);
    if (decisions.empty()) break;
    for (const Decision& decision : decisions) take({now, decision});
  }
  if (fresh_.empty()) return Done{};
  return store_->append(fresh_, rows_.take_changed());
}

// Clients are told that their request failed; what agents said waits for room.
void Controller::turn_failed(std::deque<Incoming> batch, const Error& why) {
  fresh_.clear();
  log_error(why.message);
  if (auto replayed = replay(); !replayed) log_error(replayed.error().message);
  std::deque<Incoming> again;
  for (Incoming& incoming : batch) {
    if (incoming.answer) incoming.answer(why);
    else again.push_back(std::move(incoming));
  }
  inbox_.insert(inbox_.begin(), again.begin(), again.end());
  turn_posted_ = true;
  wake_.expires_after(store_retry);
  wake_.async_wait([this](const boost::system::error_code& error) {
    if (!error) turn();
  });
}

void Controller::perform() {
  const std::vector<Record> records = std::move(fresh_);
  fresh_.clear();
  for (const Record& record : records) close_attempt(record);
  announce(records, state_, rows_, watchers_);
  for (const Record& record : records) forget(record);
  sender_.perform(state_);
}

// Before anybody hears of the end: the files that nodes sent are put in place.
void Controller::close_attempt(const Record& record) {
  const auto* ended = record_as<AttemptEnded>(record);
  if (ended == nullptr) return;
  for (const std::string& problem : inbox_of_agents_.settle_files(ended->job)) {
    note(ended->job, problem);
  }
  inbox_of_agents_.attempt_over(ended->job, ended->attempt);
}

void Controller::forget(const Record& record) {
  if (const auto* placed = record_as<AttemptPlaced>(record)) {
    attempt_nodes_[placed->job] = placed->nodes;
  } else if (const auto* replaced = record_as<NodeReplaced>(record)) {
    attempt_nodes_[replaced->job].push_back(replaced->new_node);
  } else if (const auto* ended = record_as<AttemptEnded>(record)) {
    for (const NodeId& node : attempt_nodes_[ended->job]) {
      pool_.send(node, ForgetAttempt{ended->job, ended->attempt, false});
    }
    attempt_nodes_.erase(ended->job);
  } else if (const auto* over = record_as<JobEnded>(record)) {
    sender_.job_over(over->job);
  }
}

void Controller::schedule_wake() {
  const auto next = next_wake(state_, wall_now());
  if (!next) {
    wake_.cancel();
    return;
  }
  wake_.expires_after(std::max(Milliseconds{1}, *next - wall_now()));
  wake_.async_wait([this](const boost::system::error_code& error) {
    if (!error) post_turn();
  });
}

void Controller::watch_idleness() {
  const auto now = std::chrono::steady_clock::now();
  if (!state_.jobs.empty() || server_.sessions() > 0) last_busy_ = now;
  if (now - last_busy_ >= settings_.idle_limit) {
    shut_down();
    return;
  }
  idle_.expires_after(std::min<Milliseconds>(settings_.idle_limit, Milliseconds{1000}));
  idle_.async_wait([this](const boost::system::error_code& error) {
    if (!error) watch_idleness();
  });
}

void Controller::shut_down() { io_.stop(); }

void Controller::agent_up(const NodeId& node, const Welcome& welcome) {
  LinkUp up;
  up.node = node;
  up.boot_id = welcome.boot_id;
  up.agent_id = welcome.agent_id;
  up.host_name = welcome.host_name;
  const AgentConnection* connection = pool_.find(node);
  up.job_address = !connection->address().job_address.empty() ? connection->address().job_address
                                                              : welcome.address;
  sender_.node_up(state_, node, logs_);
  observe(std::move(up));
}

void Controller::agent_said(const NodeId& node, const FromAgent& message,
                            std::string_view payload) {
  if (inbox_of_agents_.take(node, message, payload)) return;
  if (const auto* wanted = std::get_if<WantBlobs>(&message)) {
    sender_.blobs_wanted(node, *wanted);
  } else if (const auto* output = std::get_if<ExecOutput>(&message)) {
    relay_.output(*output, payload);
  } else if (const auto* ended = std::get_if<ExecEnded>(&message)) {
    relay_.ended(*ended);
  } else if (const auto* asked = std::get_if<RemoteStartAsked>(&message)) {
    relay_.remote_start(state_, node, *asked);
  } else if (const auto* over = std::get_if<RemoteStartEnded>(&message)) {
    relay_.remote_start_ended(*over);
  }
}

void Controller::progress(const JobId& job, const JobEvent& event) {
  JobEvent told = event;
  if (const JobRow* row = rows_.find(job)) told.state = row->state;
  watchers_.tell(job, told);
}

void Controller::note(const JobId& job, const std::string& sentence) {
  log_warning("job " + job.value + ": " + sentence);
  JobEvent event;
  event.sentence = sentence;
  if (const JobRow* row = rows_.find(job)) event.state = row->state;
  watchers_.tell(job, event);
}

}  // namespace muster
