#include "launcher/controller/store/job_rows.h"

#include <algorithm>

#include "launcher/wire/record_codec.h"
#include "scheduler/model/names.h"
#include "scheduler/model/record.h"
#include "scheduler/state/lookup.h"
#include "scheduler/text/text.h"

namespace muster {

namespace {

// The nodes that the attempt has now.
std::vector<NodeId> names_of_active_nodes(const Attempt& attempt) {
  std::vector<NodeId> nodes;
  for (const AttemptNode& node : attempt.nodes) {
    if (is_active(node)) nodes.push_back(node.id);
  }
  return nodes;
}

JobRow row_of(const JobSubmitted& submitted, Time at) {
  JobRow row;
  row.name = submitted.job.value;
  row.display_name = submitted.spec.display_name;
  row.experiment = submitted.spec.experiment_name;
  row.compute = submitted.target.name;
  row.user = submitted.user;
  row.submitted_at = at;
  row.tags = encode_tags(submitted.spec.tags);
  row.nodes_min = submitted.spec.muster.nodes_min;
  row.nodes_max = submitted.spec.muster.nodes_max;
  return row;
}

struct Fold {
  JobRow& row;
  Time at;

  void operator()(const AttemptPlaced& placed) const {
    row.attempts = placed.attempt.value + 1;
    row.nodes = joined(placed.nodes, ",");
  }
  void operator()(const LaunchBegun&) const {
    if (!row.started_at) row.started_at = at;
  }
  void operator()(const ProgressSeen& seen) const {
    row.step = seen.step;
    if (!seen.checkpoint) return;
    row.checkpoint_step = seen.checkpoint->known_step();
    row.step = std::max(seen.step, row.checkpoint_step.value_or(0));
  }
  void operator()(const AttemptEnded& ended) const {
    if (ended.newest_checkpoint) row.checkpoint_step = ended.newest_checkpoint->known_step();
  }
  void operator()(const JobPending& waits) const { row.reason = waits.reason; }
  void operator()(const AnswersAwaited& awaited) const { row.reason = awaited.sentence; }
  void operator()(const RetryScheduled& retry) const { row.reason = retry.rule; }
  void operator()(const ResumeRequested&) const {
    row.ended_at.reset();
    row.exit_code.reset();
    row.reason.clear();
  }
  void operator()(const JobEnded& ended) const {
    row.state = word(ended.state);
    row.reason = ended.reason;
    row.exit_code = ended.exit_code;
    row.ended_at = at;
  }
  template <class Other>
  void operator()(const Other&) const {}
};

}  // namespace

// An attempt that ended left processes, or its node has proven them gone.
void JobRows::note_unclean(const State& state) {
  std::set<JobId> unclean;
  for (const auto& [id, node] : state.nodes) {
    if (node.unclean) unclean.insert(node.unclean->job);
  }
  for (auto& [id, row] : rows_) {
    if (row.unclean == unclean.contains(id)) continue;
    row.unclean = !row.unclean;
    changed_.insert(id);
  }
}

void JobRows::note(const Record& record, const State& state) {
  const bool may_clean = record_as<NodeClean>(record) || record_as<LinkUp>(record);
  const auto is_unclean = [](const auto& item) { return item.second.unclean; };
  const bool is_some = may_clean && std::ranges::any_of(rows_, is_unclean);
  if (is_some || record_as<AttemptEnded>(record)) note_unclean(state);
  const JobId* about = job_of(record);
  if (about == nullptr) return;
  const JobId id = *about;
  if (const auto* submitted = record_as<JobSubmitted>(record)) {
    rows_[id] = row_of(*submitted, record.at);
  }
  const auto found = rows_.find(id);
  if (found == rows_.end()) return;
  JobRow& row = found->second;
  std::visit([&](const auto& side) { std::visit(Fold{row, record.at}, side); }, record.what);
  if (const auto job = state.jobs.find(id); job != state.jobs.end()) {
    row.order = job->second.order;
    if (!row.ended_at) row.state = job_state_name(state, job->second);
    const Attempt* attempt = active_attempt(job->second);
    const bool awaits = attempt && phase_of<Gathering>(*attempt) && !job->second.awaited.empty();
    if (attempt && !awaits) row.reason.clear();
    const bool may_move_nodes = std::holds_alternative<Decision>(record.what);
    if (attempt && may_move_nodes) row.nodes = joined(names_of_active_nodes(*attempt), ",");
  }
  changed_.insert(id);
}

void JobRows::note_step(const JobId& job, std::int64_t step) {
  const auto found = rows_.find(job);
  if (found == rows_.end() || found->second.ended_at || found->second.step == step) return;
  found->second.step = step;
  changed_.insert(job);
}

std::vector<JobRow> JobRows::take_changed() {
  std::vector<JobRow> rows;
  for (const JobId& id : changed_) {
    const auto found = rows_.find(id);
    if (found == rows_.end()) continue;
    rows.push_back(found->second);
    if (found->second.ended_at && !found->second.unclean) rows_.erase(found);
  }
  changed_.clear();
  return rows;
}

const JobRow* JobRows::find(const JobId& job) const {
  const auto found = rows_.find(job);
  return found == rows_.end() || found->second.ended_at ? nullptr : &found->second;
}

void JobRows::restore(const JobRow& row) {
  rows_[JobId{row.name}] = row;
}

void JobRows::clear() {
  rows_.clear();
  changed_.clear();
}

}  // namespace muster
