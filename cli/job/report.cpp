#include "cli/job/report.h"

#include <nlohmann/json.hpp>

#include "cli/job/launch_report.h"
#include "launcher/staging/content_hash.h"
#include "scheduler/model/names.h"
#include "scheduler/text/duration.h"

namespace muster {

namespace {

Document checkpoint_document(const std::optional<CheckpointRef>& checkpoint) {
  if (!checkpoint) return nullptr;
  Document out{{"step", value_or_null(checkpoint->known_step())}, {"path", checkpoint->directory}};
  if (checkpoint->is_foreign()) out["kind"] = checkpoint->kind;
  return out;
}

Document exit_document(const AttemptCause& cause) {
  if (cause.status.ok() || cause.reason == StopReason::hung) return nullptr;
  const bool killed = cause.status.signal != 0;
  return Document{{"code", killed ? Document(nullptr) : Document(cause.status.code)},
                  {"signal", killed ? Document(cause.status.signal) : Document(nullptr)}};
}

Document ms_or_null(const std::optional<std::int64_t>& us) {
  return us ? Document(static_cast<double>(*us) / 1000) : Document(nullptr);
}

Document candidate_document(const FailureCandidate& candidate) {
  return Document{{"rank", value_or_null(candidate.rank)},
                  {"node", candidate.node.value},
                  {"how", candidate.how}};
}

Document first_failure_document(const AttemptCause& cause) {
  if (!cause.first_failure) return nullptr;
  const FirstFailure& first = *cause.first_failure;
  Document out;
  out["rank"] = value_or_null(first.rank);
  out["node"] = value_or_null(first.node);
  out["when"] = first.at_ms ? Document(utc_text(from_ms(*first.at_ms))) : Document(nullptr);
  out["margin_ms"] = ms_or_null(first.margin_us);
  out["uncertainty_ms"] = ms_or_null(first.uncertainty_us);
  out["followed"] = first.followed;
  out["candidates"] = list_of(first.candidates, candidate_document);
  out["evidence"] = first.evidence;
  for (const std::string& line : cause.last_lines) out["evidence"].push_back("output: " + line);
  return out;
}

void add_cause(Document& out, const AttemptSummary& attempt) {
  const bool failed = attempt.cause && !attempt.cause->succeeded;
  const AttemptCause cause = attempt.cause.value_or(AttemptCause{});
  out["cause"] = value_or_null(attempt.abandoned.value_or(cause.sentence));
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
  out["rank"] = value_or_null(stall->rank);
  out["node"] = value_or_null(stall->blamed);
  out["step"] = value_or_null(stall->step);
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
  const auto name_of = [](const NodeId& node) { return node.value; };
  out["nodes"] = list_of(attempt.nodes, name_of);
  out["spares"] = list_of(attempt.spares, name_of);
  out["status"] = attempt_status(attempt);
  out["placed_at"] = utc_text(attempt.placed);
  out["started_at"] = value_or_null(attempt.started);
  out["ended_at"] = value_or_null(attempt.ended);
  out["resumed_from_step"] = value_or_null(attempt.resumed_from_step);
  out["last_step"] = value_or_null(attempt.last_step);
  out["checkpoint"] = checkpoint_document(attempt.newest_checkpoint);
  out["stall"] = stall_document(attempt.stall);
  add_cause(out, attempt);
  out["followed_by"] = value_or_null(attempt.next);
  return out;
}

// A row stays below 200 KiB.
constexpr std::size_t files_listed = 1000;

Document tree_document(const Tree& tree) {
  std::string lines;
  std::int64_t bytes = 0;
  std::size_t files = 0;
  Document content = Document::object();
  for (const TreeEntry& entry : tree.entries) {
    lines += entry.path + ' ' + std::to_string(entry.mode) + ' ' +
             (entry.hash.empty() ? entry.target : entry.hash) + '\n';
    if (entry.entry_kind != TreeEntry::Kind::file) continue;
    bytes += entry.size_bytes;
    if (++files <= files_listed) content[entry.path] = entry.hash;
  }
  Document out{{"place", tree.place}, {"files", files}, {"bytes", bytes}};
  out["hash"] = content_hash_of(lines);
  if (files <= files_listed) out["content"] = std::move(content);
  return out;
}

}  // namespace

Document row_document(const JobRow& row) {
  Document out;
  out["name"] = row.name;
  out["display_name"] = row.display_name;
  out["experiment"] = row.experiment;
  out["status"] = row.state;
  out["exit_code"] = value_or_null(row.exit_code);
  out["reason"] = value_or_null(row.reason);
  out["compute"] = row.compute;
  out["user"] = row.user;
  out["submitted_at"] = utc_text(row.submitted_at);
  out["started_at"] = value_or_null(row.started_at);
  out["ended_at"] = value_or_null(row.ended_at);
  out["steps"] = value_or_null(row.step);
  out["checkpoint_step"] = value_or_null(row.checkpoint_step);
  out["attempt_count"] = row.attempts;
  out["nodes"] = row.nodes;
  out["nodes_min"] = row.nodes_min > 0 ? Document(row.nodes_min) : Document(nullptr);
  out["nodes_max"] = row.nodes_max > 0 ? Document(row.nodes_max) : Document(nullptr);
  out["archived"] = row.archived;
  const Document tags = Document::parse(row.tags, nullptr, false);
  out["tags"] = tags.is_object() ? tags : Document::object();
  return out;
}

Document rows_document(const std::vector<JobRow>& rows) {
  return list_of(rows, row_document);
}

JobSummary summary_of(const JobRow& row, const JobHistory& history) {
  JobSummary summary = summarize(history.records);
  if (row.ended_at || summary.attempts.empty()) return summary;
  AttemptSummary& last = summary.attempts.back();
  if (last.last_step && !last.cause) last.last_step = row.step;
  return summary;
}

Document report_document(const JobRow& row, const JobHistory& history,
                         const std::string& directory) {
  const JobSummary summary = summary_of(row, history);
  Document out = row_document(row);
  for (const char* key : {"checkpoint_step", "attempt_count", "nodes", "archived"}) out.erase(key);
  if (row.ended_at) out["steps"] = value_or_null(summary.last_step ? summary.last_step : row.step);
  out["checkpoint"] = checkpoint_document(summary.checkpoint);
  out["directory"] = directory;
  out["attempts"] = list_of(summary.attempts, attempt_document);
  out["program_exit"] = nullptr;
  if (!summary.attempts.empty() && summary.attempts.back().cause) {
    out["program_exit"] = exit_document(*summary.attempts.back().cause);
  }
  out["launch"] = launch_document(launch_profile(history.records, history.links));
  return out;
}

std::string job_summary(const JobRow& row, const JobHistory& history, const std::string& directory,
                        const std::vector<Tree>& trees) {
  Document report = report_document(row, history, directory);
  report.erase("launch");
  for (Document& attempt : report["attempts"]) {
    for (const char* key : {"first_failure", "stall", "spares"}) attempt.erase(key);
  }
  Document out{{"version", 1}};
  out["report"] = std::move(report);
  out["trees"] = list_of(trees, tree_document);
  return out.dump(-1, ' ', false, Document::error_handler_t::replace);
}

Result<std::optional<Document>> kept_report(const FoundJob& found) {
  const auto kept = found.store->summary_of(found.id());
  if (!kept) return kept.error();
  if (!*kept) return std::optional<Document>{};
  Document summary = Document::parse(**kept, nullptr, false);
  if (!summary.is_object() || !summary.contains("report")) return std::optional<Document>{};
  return std::optional(std::move(summary["report"]));
}

std::string why_no_history(const FoundJob& found) {
  const auto kept = found.store->summary_of(found.id());
  if (!kept || !*kept) return "";
  return "the records of job " + found.row.name +
         " were removed (journal in retention.yml); `muster status " + found.row.name +
         " -o json` shows the summary that is left";
}

}  // namespace muster
