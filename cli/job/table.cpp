#include "cli/job/table.h"

#include <algorithm>

#include "cli/job/node_range.h"
#include "cli/terminal/table.h"
#include "cli/terminal/terminal.h"
#include "cli/time_text.h"

namespace muster {

namespace {

std::string run_time(const Store& store, const JobRow& row, Time now) {
  if (!row.started_at) return "";
  const auto records = row.attempts > 1 ? store.records_of(JobId{row.name}) : Error{};
  if (records) return elapsed_text(running_time(summarize(*records), now));
  return elapsed_text(row.ended_at.value_or(now) - *row.started_at);
}

std::string number_text(const std::optional<std::int64_t>& number) {
  return number ? std::to_string(*number) : "";
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
                                     number_text(row.step),
                                     row.exit_code ? std::to_string(*row.exit_code) : "",
                                     row.reason};
    if (with_nodes) line.insert(line.begin() + 3, nodes_cell(row));
    table.add(std::move(line));
  }
  const int width = is_terminal(Stream::out) ? terminal_width(Stream::out) : 0;
  return table.text(width, wants_color(common.color, Stream::out));
}

}  // namespace muster
