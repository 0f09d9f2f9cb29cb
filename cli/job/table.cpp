#include "cli/job/table.h"

#include <algorithm>

#include "cli/terminal/table.h"
#include "scheduler/text/duration.h"

namespace muster {

namespace {

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

}  // namespace

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

std::string number_cell(const std::optional<std::int64_t>& number) {
  return number ? std::to_string(*number) : "";
}

bool is_elastic_row(const JobRow& row) {
  return row.nodes_min < row.nodes_max;
}

std::string node_range_text(const JobRow& row) {
  return range(row, " nodes");
}

std::string nodes_cell(const JobRow& row) {
  if (is_elastic_row(row)) return range(row, "");
  return row.nodes_max > 0 ? std::to_string(row.nodes_max) : "";
}

}  // namespace muster
