// One function a request of the command line: checks it against State and the store, turns it into
// an observation, answers when that is journaled. Owned by the Controller.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "launcher/controller/agents/pool.h"
#include "launcher/controller/clients/exec_relay.h"
#include "launcher/controller/clients/health.h"
#include "launcher/controller/clients/server.h"
#include "launcher/controller/store/home.h"
#include "launcher/controller/store/job_rows.h"
#include "launcher/controller/store/journal.h"
#include "scheduler/state/state.h"

namespace muster {

// Clients that follow a job: told of its state changes, its progress and its end.
class Watchers {
 public:
  void add(const JobId& job, const std::shared_ptr<Session>& session);
  void tell(const JobId& job, const JobEvent& event);
  void end(const Ended& ended);  // and close
  bool has(const JobId& job) const { return sessions_.contains(job); }

 private:
  std::map<JobId, std::vector<std::weak_ptr<Session>>> sessions_;
};

void announce(const std::vector<Record>& records, const State& state, const JobRows& rows,
              Watchers& watchers);

class Requests {
 public:
  using Answer = std::function<void(Status)>;

  // The parts of the controller that requests read or change.
  struct Context {
    const State& state;
    Journal& journal;
    JobRows& rows;
    AgentPool& pool;
    Relay& relay;
    NodeHealthService& health;
    Watchers& watchers;
    std::string build_id;
    std::function<void(Observation, Answer)> observe;
    std::function<void()> shut_down;
    std::function<Time()> wall_now;
  };

  explicit Requests(Context context) : context_(std::move(context)) {}
  void handle(const std::shared_ptr<Session>& session, ToController request,
              std::string_view payload);

 private:
  void report_fixed(const Node& node, const std::string& check);  // empty: all
  void report_rearmed(const std::string& breaker);
  void take(const std::shared_ptr<Session>& session, const Submit& request);
  void take(const std::shared_ptr<Session>& session, const Cancel& request);
  void take(const std::shared_ptr<Session>& session, const Resume& request);
  void take(const std::shared_ptr<Session>& session, const SetDrain& request);
  void take(const std::shared_ptr<Session>& session, const ResetBreaker& request);
  void take(const std::shared_ptr<Session>& session, const Watch& request);
  void take(const std::shared_ptr<Session>& session, const Exec& request) {
    context_.relay.exec(session, request);
  }
  void take(const std::shared_ptr<Session>&, const ExecInput&) {}  // was taken with its payload
  void take(const std::shared_ptr<Session>& session, const ExecControl& request) {
    context_.relay.control(session, request);
  }
  void take(const std::shared_ptr<Session>& session, const AskNodes& request);
  void take(const std::shared_ptr<Session>& session, const LookAtNodes& request) {
    context_.health.look(session, request);
  }
  void take(const std::shared_ptr<Session>& session, const MeasureNodes& request) {
    context_.health.measure(session, request);
  }
  void take(const std::shared_ptr<Session>& session, const AskVersion& request);
  void take(const std::shared_ptr<Session>& session, const Shutdown& request);

  // `done`: what follows once it is journaled; `note`: said with the answer.
  Answer answering(const std::shared_ptr<Session>& session, const JobId& job,
                   std::function<void()> done = {}, const std::string& note = "");

  Context context_;
  std::set<JobId> arriving_;  // submitted or resumed, not yet journaled
};

// How long a node has said nothing, and when it will count as lost: for people who look before that
// happens.
struct LinkSilence {
  Milliseconds silent;   // since its last word
  Milliseconds lost_at;  // so silent, its job continues without it; without a job: its link is lost
};

// Pure. `silent`: since the last word on any link to it. Nothing: not unusual, or nobody waits for
// it.
std::optional<LinkSilence> link_silence(const State& state, const Node& node, Milliseconds silent);

}  // namespace muster
