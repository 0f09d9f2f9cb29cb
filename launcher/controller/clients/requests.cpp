#include "launcher/controller/clients/requests.h"

#include <unistd.h>

#include <algorithm>

#include "launcher/controller/store/job_leavings.h"
#include "scheduler/explain/explain.h"
#include "scheduler/model/names.h"
#include "scheduler/model/record.h"
#include "scheduler/node/fault_drain.h"
#include "scheduler/node/remediation_run.h"
#include "scheduler/node/status.h"
#include "scheduler/restart/policy.h"
#include "scheduler/state/lookup.h"
#include "scheduler/text/text.h"

namespace muster {

namespace {

// Agents are asked every two seconds at least, and answer within milliseconds.
constexpr Milliseconds usual_silence{4000};

// An agent that no job needs ends, and so does its connection: the node is as good as before.
std::string link_state_text(const Node& node) {
  if (std::holds_alternative<Linked>(node.link)) return "up";
  const auto* down = std::get_if<Unlinked>(&node.link);
  const bool has_ended =
      down == nullptr ||
      (!node.owner && down->failure.kind == LinkFailureKind::lost && !down->failure.is_silent);
  return has_ended ? "not connected" : "down: " + down->failure.message;
}

// What muster itself holds against the node, and what the node says of itself.
void report_memory(NodeLine& line, const State& state, const Node& node, Time now) {
  Moment moment(now);
  line.spare = is_spare(state, node);
  line.evidence = node.evidence;
  line.suspicion = failure_score_of(node.evidence, now);
  line.faults = node.faults;
  if (node.fault_drain) {
    line.unfit = node.fault_drain->fault;
    line.unfit_reason = node.fault_drain->reason;
    line.unfit_since = node.fault_drain->since;
    line.next_look = next_look_text(node, now);
  }
  line.remedies = node.remedies;
  line.not_remedied = remedy_hindrance(state, node).value_or("");
  if (const auto what = remedy_text(node)) {
    line.remedy = *what;
    line.remedy_since = node.remedy->since;
  }
  if (is_leaving(node, moment)) line.leaves = notice_text(node.id, *node.notice, now);
  if (!is_cordoned(node, moment)) return;
  line.set_aside = node.set_aside->reason;
  line.set_aside_since = node.set_aside->since;
  line.set_aside_until = node.set_aside->until;
}

void report_silence(NodeLine& line, const State& state, const Node& node,
                    const AgentConnection& connection) {
  const auto silent = connection.silent_for();
  const auto silence = silent ? link_silence(state, node, *silent) : std::nullopt;
  if (!silence) return;
  line.silent = silence->silent;
  line.lost_at = silence->lost_at;
}

bool is_kept_from_work(const Node& node, Time now) {
  Moment moment(now);
  return node.drained || node.fault_drain || is_cordoned(node, moment);
}

// It names directories here and on the nodes.
bool is_job_name(const std::string& name) {
  constexpr std::size_t longest = 255;
  const auto is_allowed = [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_' ||
           c == '-';
  };
  return !name.empty() && name.size() <= longest && name.front() != '-' &&
         std::ranges::all_of(name, is_allowed);
}

std::vector<std::string> open_breakers(const State& state, const std::string& said) {
  std::vector<std::string> names;
  for (const auto& [name, breaker] : state.breakers) {
    const bool is_said = name == said || (breaker.is_check && names_breaker(said, name));
    if (breaker.open_since && is_said) names.push_back(name);
  }
  return names;
}

std::string nothing_open(const State& state, const std::string& said) {
  const std::string check(check_of_breaker(said));
  const std::string open = joined(open_breakers(state, check));
  return "nothing keeps nodes from being cordoned or drained by " + said + ": " +
         (open.empty() ? "there is nothing to reset" : "of " + check + " there is " + open);
}

// The sentences may speak of the step that an attempt reached: a record of it goes first.
std::vector<Record> with_steps(const std::vector<Record>& records, const JobId& id, const Job* job,
                               const JobRow* row) {
  std::vector<Record> all;
  const auto add = [&](AttemptId attempt, const std::optional<std::int64_t>& step) {
    if (!step || records.empty()) return;
    all.push_back({records.front().at, Observation{ProgressSeen{id, attempt, *step, {}}}});
  };
  if (job && !job->past.empty()) add(job->past.back().id, job->past.back().last_step);
  const Attempt* active = job ? active_attempt(*job) : nullptr;
  const bool has_newer = active && active->last_step && row && row->step;
  if (active) add(active->id, has_newer ? row->step : active->last_step);
  if (!job && row) add(AttemptId{row->attempts - 1}, row->step);
  all.insert(all.end(), records.begin(), records.end());
  return all;
}

// Of many nodes that are being prepared, one is told of.
bool is_awaited_first(const StagingSeen& seen, const Job* job) {
  const Attempt* attempt = job ? active_attempt(*job) : nullptr;
  if (!attempt) return false;
  const auto first = std::ranges::find_if(
      attempt->nodes, [](const AttemptNode& node) { return !node.staged.has_value(); });
  return first != attempt->nodes.end() && first->id == seen.node;
}

// What a try for nodes says that ends as the one before it did, and how it begins: followers have
// heard it. Of a job that ends with its last try, the end says why.
bool is_said_again(const Record& record, const Job* job) {
  if (const auto* seen = record_as<StagingSeen>(record)) return !is_awaited_first(*seen, job);
  const bool is_over = record_as<PlacementAbandoned>(record) != nullptr;
  if (job == nullptr) return is_over;
  if (job->abandoned == 0) return false;
  if (is_over) return job->abandoned_alike > 1;
  return record_as<AttemptPlaced>(record) != nullptr || record_as<NodeReplaced>(record) != nullptr;
}

void tell(const JobId& id, const std::vector<Record>& records, const State& state,
          const JobRow* row, Watchers& watchers) {
  JobEvent event;
  const Job* job = find_job(state, id);
  if (job) {
    event.state = job_state_name(state, *job);
    event.attempt = job->next_attempt - 1;
  }
  const std::vector<ExplainLine> lines = explain(with_steps(records, id, job, row));
  for (const ExplainLine& line : lines) {
    event.sentence = line.text;
    watchers.tell(id, event);
  }
  if (lines.empty()) watchers.tell(id, event);  // the state may be another one all the same
  for (const Record& record : records) {
    if (const auto* ended = record_as<JobEnded>(record)) {
      watchers.end(Ended{id, std::string(word(ended->state)), ended->exit_code, ended->reason});
    }
  }
}

}  // namespace

Requests::Answer Requests::answering(const std::shared_ptr<Session>& session, const JobId& job,
                                     std::function<void()> done, const std::string& note) {
  return [this, session, job, note, done = std::move(done)](Status outcome) {
    arriving_.erase(job);
    if (outcome) {
      if (done) done();
      session->answer(Accepted{job, note});
    } else {
      session->refuse(outcome.error().message, ExitCode::internal);
    }
  };
}

void Requests::handle(const std::shared_ptr<Session>& session, ToController request,
                      std::string_view payload) {
  if (std::holds_alternative<ExecInput>(request)) return context_.relay.input(session, payload);
  std::visit([&](const auto& what) { take(session, what); }, request);
}

void Requests::take(const std::shared_ptr<Session>& session, const Submit& request) {
  const JobId job{request.spec.name};
  if (!is_job_name(job.value)) {
    return session->refuse("a job cannot be called '" + job.value +
                               "': a name has letters, digits, '_' and '-', at most 255",
                           ExitCode::invalid_job);
  }
  if (request.target.nodes.empty()) {
    return session->refuse(
        "compute target " + request.target.name + " of job " + job.value + " has no nodes",
        ExitCode::invalid_job);
  }
  const auto known = context_.journal.job(job);
  if (!known) return session->refuse(known.error().message, ExitCode::internal);
  if (*known || find_job(context_.state, job) != nullptr || !arriving_.insert(job).second) {
    return session->refuse("a job called " + job.value + " exists already: choose another name",
                           ExitCode::invalid_job);
  }
  context_.observe(JobSubmitted{job, request.spec, request.target, request.user},
                   answering(session, job));
}

void Requests::take(const std::shared_ptr<Session>& session, const Cancel& request) {
  if (find_job(context_.state, request.job) == nullptr) {
    const auto row = context_.journal.job(request.job);
    const bool ended = row && *row;
    return session->refuse(ended
                               ? "job " + request.job.value + " has already ended: " + (*row)->state
                               : "job " + request.job.value + " not found");
  }
  context_.observe(CancelRequested{request.job, request.grace}, answering(session, request.job));
}

void Requests::take(const std::shared_ptr<Session>& session, const Resume& request) {
  if (find_job(context_.state, request.job) != nullptr) {
    return session->refuse("job " + request.job.value +
                           " has not ended: there is nothing to resume");
  }
  const auto row = context_.journal.job(request.job);
  const auto records = context_.journal.records_of(request.job);
  if (!row || !records) {
    return session->refuse(!row ? row.error().message : records.error().message,
                           ExitCode::internal);
  }
  if (!*row) return session->refuse("job " + request.job.value + " not found");
  if (records->empty()) return session->refuse(records_removed(request.job).message);
  auto resume = resume_request(*records, request.from_step, request.from_certified);
  if (!resume) return session->refuse(resume.error().message);
  if (!arriving_.insert(request.job).second) {
    return session->refuse("job " + request.job.value + " is being resumed already");
  }
  context_.rows.restore(**row);
  context_.observe(std::move(*resume), answering(session, request.job));
}

// Whoever undrains a node, or arms a check again, has seen to the faults: agents would refuse the
// next job for them. Not before that is journaled: what agents have forgotten does not come back.
// Whom this does not reach is answered so when it tells of the faults (agents/inbox.cpp).
void Requests::report_fixed(const Node& node, const std::string& check) {
  FaultsFixed mended;
  for (const NodeFault& fault : node.faults) {
    if (check.empty() || fault.check == check) mended.ids.push_back(fault.id);
  }
  // Of an undrained node none as well: what a gate has measured there is measured anew.
  if (!mended.ids.empty() || check.empty()) context_.pool.send(node.id, mended);
}

// To the agents of the nodes that it is about.
void Requests::report_rearmed(const std::string& breaker) {
  const std::string check(check_of_breaker(breaker));
  for (const auto& [id, node] : context_.state.nodes) {
    if (is_breaker_of(breaker, targets_of(context_.state, id))) report_fixed(node, check);
  }
}

void Requests::take(const std::shared_ptr<Session>& session, const SetDrain& request) {
  std::function<void()> done;
  std::string note;
  if (!request.drained) {
    const Node* known = find_node(context_.state, request.node);
    const bool is_kept = known != nullptr && is_kept_from_work(*known, context_.wall_now());
    if (!is_kept) note = request.node.value + " was neither drained nor cordoned";
    done = [this, id = request.node] {
      if (const Node* node = find_node(context_.state, id)) report_fixed(*node, "");
    };
  }
  context_.observe(NodeDrainSet{request.node, request.drained, request.reason, request.move_after},
                   answering(session, {}, std::move(done), note));
}

// One record for each, so that what is not open anywhere is not forgotten there.
void Requests::take(const std::shared_ptr<Session>& session, const ResetBreaker& request) {
  const auto names = open_breakers(context_.state, request.target);
  if (names.empty()) return session->refuse(nothing_open(context_.state, request.target));
  for (const std::string& name : names) {
    std::function<void()> done;
    if (context_.state.breakers.at(name).is_check) done = [this, name] { report_rearmed(name); };
    Answer answer = [done](Status outcome) {
      if (outcome && done) done();
    };
    const bool is_last = &name == &names.back();
    context_.observe(BreakerReset{name}, is_last ? answering(session, {}, done) : answer);
  }
}

void Requests::take(const std::shared_ptr<Session>& session, const Watch& request) {
  const JobRow* live = context_.rows.find(request.job);
  if (live != nullptr) {
    context_.watchers.add(request.job, session);
    JobEvent event;
    event.state = live->state;
    event.sentence = live->reason;
    event.attempt = live->attempts - 1;
    event.step = live->step;
    session->send(event);
    return;
  }
  const auto row = context_.journal.job(request.job);
  if (!row || !*row) return session->refuse("job " + request.job.value + " not found");
  session->answer(Ended{request.job, (*row)->state,
                        (*row)->exit_code.value_or(static_cast<int>(ExitCode::internal)),
                        (*row)->reason});
}

void Requests::take(const std::shared_ptr<Session>& session, const AskNodes&) {
  NodesAnswer answer;
  const Time now = context_.wall_now();
  for (const auto& [target, breaker] : context_.state.breakers) {
    if (!breaker.open_since) continue;
    answer.breakers.push_back({target, breaker.reason, *breaker.open_since, breaker.is_check});
  }
  for (const auto& [id, node] : context_.state.nodes) {
    NodeLine line;
    line.node = id.value;
    line.link = link_state_text(node);
    if (const LinkUp* agent = linked_agent(context_.state, id)) {
      line.host_name = agent->host_name;
      line.through = agent->through;
    }
    if (const LinkUp* agent = last_agent(node)) line.gpus = agent->gpus;
    if (node.owner) line.owner = node.owner->value;
    line.drained = node.drained;
    line.drain_reason = node.drain_reason;
    report_memory(line, context_.state, node, now);
    if (const AgentConnection* connection = context_.pool.find(id)) {
      report_silence(line, context_.state, node, *connection);
      for (const auto& [phase, us] : connection->reached().profile) {
        line.profile[phase] = Milliseconds{us / 1000};
      }
    }
    answer.nodes.push_back(std::move(line));
  }
  session->answer(answer);
}

void Requests::take(const std::shared_ptr<Session>& session, const AskVersion&) {
  session->answer(VersionAnswer{context_.build_id, ::getpid(),
                                static_cast<std::int64_t>(context_.state.jobs.size())});
}

void Requests::take(const std::shared_ptr<Session>& session, const Shutdown& request) {
  if (request.retire_agents) context_.pool.retire_all();
  session->answer(Accepted{});
  context_.shut_down();
}

std::optional<LinkSilence> link_silence(const State& state, const Node& node, Milliseconds silent) {
  if (silent < usual_silence) return std::nullopt;
  const Job* job = node.owner ? find_job(state, *node.owner) : nullptr;
  const Attempt* attempt = job == nullptr ? nullptr : active_attempt(*job);
  const bool runs_there = attempt != nullptr && attempt->launched;
  if (runs_there) return LinkSilence{silent, patience_with(state, *job, node.id)};
  if (std::holds_alternative<Unlinked>(node.link)) return std::nullopt;
  return LinkSilence{silent, AgentConnection::silence_limit};
}

void announce(const std::vector<Record>& records, const State& state, const JobRows& rows,
              Watchers& watchers) {
  std::map<JobId, std::vector<Record>> by_job;
  for (const Record& record : records) {
    const JobId* id = job_of(record);
    if (id == nullptr || !watchers.has(*id)) continue;
    auto& mine = by_job[*id];
    if (!is_said_again(record, find_job(state, *id))) mine.push_back(record);
  }
  for (const auto& [id, mine] : by_job) tell(id, mine, state, rows.find(id), watchers);
}

void Watchers::add(const JobId& job, const std::shared_ptr<Session>& session) {
  auto& list = sessions_[job];
  std::erase_if(list, [](const auto& weak) { return weak.expired(); });
  list.push_back(session);
}

void Watchers::tell(const JobId& job, const JobEvent& event) {
  const auto found = sessions_.find(job);
  if (found == sessions_.end()) return;
  for (const auto& weak : found->second) {
    if (const auto session = weak.lock()) session->send(event);
  }
}

void Watchers::end(const Ended& ended) {
  const auto found = sessions_.find(ended.job);
  if (found == sessions_.end()) return;
  for (const auto& weak : found->second) {
    if (const auto session = weak.lock()) session->answer(ended);
  }
  sessions_.erase(found);
}

}  // namespace muster
