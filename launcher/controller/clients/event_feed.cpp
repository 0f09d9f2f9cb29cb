#include "launcher/controller/clients/event_feed.h"

#include <algorithm>

#include "scheduler/explain/explain.h"
#include "scheduler/model/names.h"
#include "scheduler/model/record.h"
#include "scheduler/state/lookup.h"

namespace muster {

namespace {

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
