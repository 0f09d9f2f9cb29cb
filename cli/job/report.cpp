#include "cli/job/report.h"

#include <algorithm>
#include <array>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>

#include "cli/terminal/table.h"
#include "cli/terminal/terminal.h"
#include "launcher/staging/content_hash.h"
#include "launcher/wire/json_fields.h"
#include "launcher/wire/record_codec.h"
#include "scheduler/model/names.h"
#include "scheduler/text/duration.h"
#include "scheduler/text/number.h"
#include "scheduler/text/spelling.h"
#include "scheduler/text/text.h"

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

std::string run_time(const Store& store, const JobRow& row, Time now) {
  if (!row.started_at) return "";
  const auto records = row.attempts > 1 ? store.records_of(JobId{row.name}) : Error{};
  if (records) return elapsed_text(running_time(summarize(*records), now));
  return elapsed_text(row.ended_at.value_or(now) - *row.started_at);
}

// A job that waits has the nodes of its last attempt no more.
std::size_t nodes_now(const JobRow& row) {
  const bool waits = row.state == "Queued" || row.state == "NotStarted";
  if (row.ended_at || waits || row.nodes.empty()) return 0;
  return static_cast<std::size_t>(std::count(row.nodes.begin(), row.nodes.end(), ',')) + 1;
}

// "2-4 nodes, 3 now"
std::string range(const JobRow& row, const char* unit) {
  const std::size_t nodes = nodes_now(row);
  return std::to_string(row.nodes_min) + "-" + std::to_string(row.nodes_max) + unit +
         (nodes == 0 ? "" : ", " + std::to_string(nodes) + " now");
}

// A screen has room for these; all are in the JSON report and in the trace.
constexpr std::size_t nodes_shown = 5;

double ms_of(std::int64_t us) {
  return static_cast<double>(us) / 1000;
}

std::string ms_text(std::int64_t us) {
  return printed(us < 10'000 ? "%.1f ms" : "%.0f ms", ms_of(us));
}

std::int64_t begun_us(const LaunchProfile& profile) {
  std::int64_t first = 0;
  for (const NodeLaunch& node : profile.nodes) {
    for (const LaunchPhase& phase : node.phases) first = std::min(first, phase.begun_us);
  }
  return first;
}

Document slowest_document(const LaunchProfile& profile) {
  const auto slowest = slowest_node(profile);
  if (!slowest) return nullptr;
  return Document{{"node", slowest->node.value},
                  {"ms", ms_of(slowest->took_us)},
                  {"phase", slowest->phase.name},
                  {"phase_ms", ms_of(slowest->phase.took_us)},
                  {"sentence", slowest->sentence}};
}

Document host_document(const NodeLaunch& node) {
  Document out;
  out["node"] = node.node.value;
  out["ms"] = ms_of(node.took_us());
  out["kept_connection"] = node.kept_connection;
  out["methods"] = value_or_null(node.methods);
  out["through"] = value_or_null(node.through);
  out["phases"] = Document::object();
  for (const LaunchPhase& phase : node.phases) out["phases"][phase.name] = ms_of(phase.took_us);
  return out;
}

const NodeLaunch& slowest_in(const LaunchProfile& profile, const std::string& phase) {
  const auto took = [&](const NodeLaunch& node) { return node.took_us(phase); };
  return *std::ranges::max_element(profile.nodes, {}, took);
}

Table phases_table(const LaunchProfile& profile) {
  Table table({"PHASE", "MEDIAN", "P99", "SLOWEST", "NODE"});
  for (const std::string& phase : launch_phase_names(profile)) {
    const NodeLaunch& slowest = slowest_in(profile, phase);
    table.add({phase, ms_text(quantile_us(profile, phase, 0.5)),
               ms_text(quantile_us(profile, phase, 0.99)), ms_text(slowest.took_us(phase)),
               slowest.node.value});
  }
  return table;
}

Table nodes_table(const LaunchProfile& profile) {
  std::vector<NodeLaunch> nodes = profile.nodes;
  const auto took = [](const NodeLaunch& node) { return node.took_us(); };
  std::ranges::stable_sort(nodes, std::greater{}, took);
  nodes.resize(std::min(nodes.size(), nodes_shown));
  Table table({"SLOWEST NODES", "TOOK", "PHASES"});
  for (const NodeLaunch& node : nodes) {
    std::string told = node.kept_connection ? "kept its connection" : "";
    for (const LaunchPhase& phase : node.phases) {
      told += (told.empty() ? "" : ", ") + phase.name + " " + ms_text(phase.took_us);
    }
    table.add({node.node.value, ms_text(node.took_us()), told});
  }
  return table;
}

Document event(const char* kind, const std::string& name, std::size_t row) {
  return Document{{"name", name}, {"ph", kind}, {"pid", 1}, {"tid", row}};
}

Document label(const char* what, const std::string& text, std::size_t row) {
  Document out = event("M", what, row);
  out["args"] = Document{{"name", text}};
  return out;
}

// What the option's value is when none is given.
constexpr const char* without_file = "true";

constexpr const char* masked = "***";
// A shorter value would be found in many places that have nothing to do with it.
constexpr std::size_t shortest_replaced = 4;

bool is_secret_name(const std::string& name) {
  static constexpr std::array<std::string_view, 13> words{
      "key",  "apikey",     "token",      "secret",      "password", "passwd", "pwd",
      "pass", "passphrase", "credential", "credentials", "sas",      "pat"};
  const std::string plain = folded(name);  // MY-Key.x as my_key.x
  return std::ranges::any_of(words_in(plain, "_."), [](std::string_view part) {
    return std::ranges::find(words, part) != words.end();
  });
}

// `https://user:password@host`, `…?sig=…`.
void mask_urls(std::string& text) {
  for (std::size_t at = 0; (at = text.find("://", at)) != text.npos; at += 3) {
    const std::size_t end = std::min(text.find_first_of("/ \t\n\"'", at + 3), text.size());
    const std::size_t host = text.rfind('@', end);
    if (host != text.npos && host > at + 3) text.replace(at + 3, host - at - 3, masked);
  }
  for (const std::string name : {"?sig=", "&sig=", "?token=", "&token="}) {
    for (std::size_t at = 0; (at = text.find(name, at)) != text.npos;) {
      at += name.size();
      const std::size_t end = std::min(text.find_first_of("& \t\n\"'", at), text.size());
      text.replace(at, end - at, masked);
    }
  }
}

void mask_texts(Document& value) {
  if (value.is_string()) {
    std::string text = with_expressions(value.get<std::string>());
    mask_urls(text);
    value = text;
  }
  for (Document& item : value) {
    if (value.is_structured()) mask_texts(item);
  }
}

template <class T>
void in_seconds(Document&, const T&) {}
template <class R, class P>
void in_seconds(Document& out, const std::chrono::duration<R, P>& value) {
  const auto ms = std::chrono::duration_cast<Milliseconds>(value).count();
  out = ms % 1000 == 0 ? Document(ms / 1000) : Document(static_cast<double>(ms) / 1000);
}
template <HasFields T>
void in_seconds(Document& out, const T& value);
template <class T>
void in_seconds(Document& out, const std::optional<T>& value) {
  if (value) in_seconds(out, *value);
}
template <class T>
void in_seconds(Document& out, const std::vector<T>& values) {
  for (std::size_t i = 0; i < values.size() && i < out.size(); ++i) in_seconds(out[i], values[i]);
}
template <HasFields T>
void in_seconds(Document& out, const T& value) {
  T::fields(value, [&out](const char* name, const auto& field) {
    const auto found = out.find(name);
    if (found != out.end()) in_seconds(*found, field);
  });
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

Milliseconds running_time(const JobSummary& job, Time now) {
  Milliseconds total{0};
  for (const AttemptSummary& attempt : job.attempts) {
    if (!attempt.started) continue;
    total += attempt.ended.value_or(job.ended.value_or(now)) - *attempt.started;
  }
  return total;
}

std::string job_table_text(const Store& store, const std::vector<JobRow>& rows,
                           const CommonOptions& common) {
  const Time now = wall_clock_now();
  const bool with_nodes = std::any_of(rows.begin(), rows.end(), is_elastic_row);
  std::vector<std::string> head = {"NAME",  "STATE", "COMPUTE", "SUBMITTED", "RAN FOR",
                                   "TRIES", "STEP",  "EXIT",    "REASON"};
  if (with_nodes) head.insert(head.begin() + 3, "NODES");
  Table table(head);
  for (const JobRow& row : rows) {
    std::vector<std::string> line = {row.name,
                                     row.state,
                                     row.compute,
                                     ago_text(row.submitted_at, now),
                                     run_time(store, row, now),
                                     row.attempts == 0 ? "" : std::to_string(row.attempts),
                                     number_cell(row.step),
                                     number_cell(row.exit_code),
                                     row.reason};
    if (with_nodes) line.insert(line.begin() + 3, nodes_cell(row));
    table.add(std::move(line));
  }
  return table.text(common);
}

std::string node_range_text(const JobRow& row) {
  return range(row, " nodes");
}

std::string nodes_cell(const JobRow& row) {
  if (is_elastic_row(row)) return range(row, "");
  return row.nodes_max > 0 ? std::to_string(row.nodes_max) : "";
}

Document launch_document(const std::optional<LaunchProfile>& profile) {
  if (!profile) return nullptr;
  return Document{{"attempt", profile->attempt.value},
                  {"slowest", slowest_document(*profile)},
                  {"hosts", list_of(profile->nodes, host_document)}};
}

std::string launch_text(const LaunchProfile& profile, int width, bool color) {
  const auto slowest = slowest_node(profile);
  std::string text = "launch of attempt " + std::to_string(profile.attempt.value) + "; ";
  text += slowest ? "slowest: " + slowest->sentence + "\n" : "nothing is known of its nodes yet\n";
  if (!slowest) return text;
  return text + phases_table(profile).text(width, color) + "\n" +
         nodes_table(profile).text(width, color);
}

Document chrome_trace(const std::string& job, const LaunchProfile& profile) {
  Document events = Document::array();
  events.push_back(label("process_name", "launch of " + job, 0));
  const std::int64_t begun = begun_us(profile);
  for (std::size_t row = 0; row < profile.nodes.size(); ++row) {
    const NodeLaunch& node = profile.nodes[row];
    events.push_back(label("thread_name", node.node.value, row));
    for (const LaunchPhase& phase : node.phases) {
      Document one = event("X", phase.name, row);
      one["ts"] = phase.begun_us - begun;
      one["dur"] = phase.took_us;
      events.push_back(std::move(one));
    }
  }
  return Document{{"traceEvents", std::move(events)}, {"displayTimeUnit", "ms"}};
}

void add_profile_option(Arguments& of, std::string& value) {
  of.flag("--profile", value,
          "Show where the time of the launch went, and write its trace (--profile=FILE; else "
          "JOB-launch-trace.json) for chrome://tracing");
}

int report_launch(const FoundJob& found, const std::string& value, const CommonOptions& common) {
  if (value.empty()) return 0;
  const auto history = history_of(found);
  if (!history) return print_error(history.error().message, internal_error, common);
  const auto profile = launch_profile(history->records, history->links);
  if (!profile) {
    notice("job " + found.row.name + " has not been allocated any node yet: there is no launch " +
               "to report",
           common);
    return 0;
  }
  const int width = is_terminal(Stream::err) ? terminal_width(Stream::err) : 0;
  write_all(Stream::err, launch_text(*profile, width, wants_color(common.color, Stream::err)));
  const std::string path = value == without_file ? found.row.name + "-launch-trace.json" : value;
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << chrome_trace(found.row.name, *profile).dump() << "\n";
  file.close();
  if (!file) {
    return print_error(
        "cannot write the trace to " + path + ": name another file with --profile=FILE",
        internal_error, common);
  }
  notice("trace of the launch: " + path, common);
  return 0;
}

JobSpec without_secrets(JobSpec spec) {
  const auto hide = [&spec](std::string& value) {
    const bool is_long = value.size() >= shortest_replaced;
    if (is_long) spec.command = replaced(std::move(spec.command), value, masked);
    value = masked;
  };
  for (auto& [name, value] : spec.environment_variables) {
    if (is_secret_name(name)) hide(value);
  }
  for (auto& [name, input] : spec.inputs) {
    if (input.is_literal && is_secret_name(name)) hide(input.literal);
  }
  for (auto& [name, value] : spec.tags) {
    if (is_secret_name(name)) hide(value);
  }
  mask_urls(spec.command);
  return spec;
}

std::string with_expressions(const std::string& text) {
  return replaced(replaced(text, "\x01", "${{"), "\x02", "}}");
}

Document spec_document(const JobSpec& spec) {
  const JobSpec shown = without_secrets(spec);
  Document out = Document::parse(encode_spec(shown), nullptr, false);
  in_seconds(out, shown);
  mask_texts(out);
  return out;
}

}  // namespace muster
