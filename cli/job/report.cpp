#include "cli/job/report.h"

#include <nlohmann/json.hpp>

#include "cli/job/launch_report.h"
#include "scheduler/explain/summary.h"
#include "scheduler/model/names.h"
#include "scheduler/text/duration.h"

namespace muster {

namespace {

template <class T>
Document or_null(const std::optional<T>& value) {
  return value ? Document(*value) : Document(nullptr);
}

Document time_or_null(const std::optional<Time>& time) {
  return time ? Document(utc_text(*time)) : Document(nullptr);
}

Document text_or_null(const std::string& text) {
  return text.empty() ? Document(nullptr) : Document(text);
}

Document checkpoint_document(const std::optional<CheckpointRef>& checkpoint) {
  if (!checkpoint) return nullptr;
  return Document{{"step", checkpoint->step}, {"path", checkpoint->directory}};
}

Document exit_document(const AttemptCause& cause) {
  if (cause.status.ok() || cause.reason == StopReason::hung) return nullptr;
  const bool killed = cause.status.signal != 0;
  Document exit;
  exit["code"] = killed ? Document(nullptr) : Document(cause.status.code);
  exit["signal"] = killed ? Document(cause.status.signal) : Document(nullptr);
  return exit;
}

Document ms_or_null(const std::optional<std::int64_t>& us) {
  return us ? Document(static_cast<double>(*us) / 1000) : Document(nullptr);
}

Document candidate_document(const FailureCandidate& candidate) {
  return Document{{"rank", candidate.rank ? Document(candidate.rank->value) : Document(nullptr)},
                  {"node", candidate.node.value},
                  {"how", candidate.how}};
}

Document first_failure_document(const AttemptCause& cause) {
  if (!cause.first_failure) return nullptr;
  const FirstFailure& first = *cause.first_failure;
  Document out;
  out["rank"] = first.rank ? Document(first.rank->value) : Document(nullptr);
  out["node"] = first.node ? Document(first.node->value) : Document(nullptr);
  out["when"] = first.at_ms ? Document(utc_text(from_ms(*first.at_ms))) : Document(nullptr);
  out["margin_ms"] = ms_or_null(first.margin_us);
  out["uncertainty_ms"] = ms_or_null(first.uncertainty_us);
  out["followed"] = first.followed;
  out["candidates"] = Document::array();
  for (const auto& candidate : first.candidates) {
    out["candidates"].push_back(candidate_document(candidate));
  }
  out["evidence"] = first.evidence;
  for (const std::string& line : cause.last_lines) out["evidence"].push_back("output: " + line);
  return out;
}

void add_cause(Document& out, const AttemptSummary& attempt) {
  const bool failed = attempt.cause && !attempt.cause->succeeded;
  const AttemptCause cause = attempt.cause.value_or(AttemptCause{});
  out["cause"] = text_or_null(attempt.abandoned.value_or(cause.sentence));
  out["class"] = failed ? Document(word(cause.failure_class)) : Document(nullptr);
  out["rule"] = failed && cause.rules.rule ? Document(cause.rules.rule->id) : Document(nullptr);
  out["first_rank"] = failed && cause.first_rank ? Document(cause.first_rank->value) : nullptr;
  out["first_node"] = failed && cause.first_node ? Document(cause.first_node->value) : nullptr;
  out["rank_exit"] = failed ? exit_document(cause) : Document(nullptr);
  out["first_failure"] = failed ? first_failure_document(cause) : Document(nullptr);
}

Document stall_document(const std::optional<StallSeen>& stall) {
  if (!stall) return nullptr;
  Document out;
  out["kind"] = word(stall->stall);
  out["rank"] = stall->rank ? Document(stall->rank->value) : Document(nullptr);
  out["node"] = stall->blamed ? Document(stall->blamed->value) : Document(nullptr);
  out["step"] = or_null(stall->step);
  out["sentence"] = stall->sentence;
  out["evidence"] = stall->evidence;
  return out;
}

const char* attempt_status(const AttemptSummary& attempt) {
  if (attempt.abandoned) return "abandoned";
  if (!attempt.cause) return "running";
  return attempt.cause->succeeded ? "succeeded" : "failed";
}

Document attempt_document(const AttemptSummary& attempt) {
  Document out;
  out["number"] = attempt.number.value;
  out["nodes"] = Document::array();
  for (const NodeId& node : attempt.nodes) out["nodes"].push_back(node.value);
  out["spares"] = Document::array();
  for (const NodeId& spare : attempt.spares) out["spares"].push_back(spare.value);
  out["status"] = attempt_status(attempt);
  out["placed_at"] = utc_text(attempt.placed);
  out["started_at"] = time_or_null(attempt.started);
  out["ended_at"] = time_or_null(attempt.ended);
  out["resumed_from_step"] = or_null(attempt.resumed_from_step);
  out["last_step"] = or_null(attempt.last_step);
  out["checkpoint"] = checkpoint_document(attempt.newest_checkpoint);
  out["stall"] = stall_document(attempt.stall);
  add_cause(out, attempt);
  out["followed_by"] = text_or_null(attempt.next);
  return out;
}

}  // namespace

Document row_document(const JobRow& row) {
  Document out;
  out["name"] = row.name;
  out["display_name"] = row.display_name;
  out["experiment"] = row.experiment;
  out["status"] = row.state;
  out["exit_code"] = or_null(row.exit_code);
  out["reason"] = text_or_null(row.reason);
  out["compute"] = row.compute;
  out["user"] = row.user;
  out["submitted_at"] = utc_text(row.submitted_at);
  out["started_at"] = time_or_null(row.started_at);
  out["ended_at"] = time_or_null(row.ended_at);
  out["steps"] = or_null(row.step);
  out["checkpoint_step"] = or_null(row.checkpoint_step);
  out["attempt_count"] = row.attempts;
  out["nodes"] = row.nodes;
  out["nodes_min"] = row.nodes_min > 0 ? Document(row.nodes_min) : Document(nullptr);
  out["nodes_max"] = row.nodes_max > 0 ? Document(row.nodes_max) : Document(nullptr);
  out["archived"] = row.archived;
  const Document tags = Document::parse(row.tags, nullptr, false);
  out["tags"] = tags.is_object() ? tags : Document::object();
  return out;
}

Document report_document(const JobRow& row, const JobHistory& history,
                         const std::string& directory) {
  const JobSummary summary = summarize(history.records);
  Document out = row_document(row);
  for (const char* key : {"checkpoint_step", "attempt_count", "nodes", "archived"}) out.erase(key);
  out["steps"] = or_null(summary.last_step ? summary.last_step : row.step);
  out["checkpoint"] = checkpoint_document(summary.checkpoint);
  out["directory"] = directory;
  out["attempts"] = Document::array();
  for (const AttemptSummary& attempt : summary.attempts) {
    out["attempts"].push_back(attempt_document(attempt));
  }
  out["program_exit"] = nullptr;
  if (!summary.attempts.empty() && summary.attempts.back().cause) {
    out["program_exit"] = exit_document(*summary.attempts.back().cause);
  }
  out["launch"] = launch_document(launch_profile(history.records, history.links));
  return out;
}

}  // namespace muster
