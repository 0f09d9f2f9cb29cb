#include "cli/job/report.h"

#include "tests/catch.h"

using namespace muster;

namespace {

JobRow a_row(int least, int most, std::string nodes, std::string state = "Running") {
  JobRow row;
  row.nodes_min = least;
  row.nodes_max = most;
  row.nodes = std::move(nodes);
  row.state = std::move(state);
  return row;
}

}  // namespace

TEST_CASE("how long a job ran leaves out the pauses between its attempts") {
  JobSummary job;
  AttemptSummary first;
  first.placed = from_ms(0);
  first.started = from_ms(10'000);
  first.ended = from_ms(40'000);
  AttemptSummary never_started;
  never_started.placed = from_ms(60'000);
  never_started.ended = from_ms(90'000);
  AttemptSummary now_running;
  now_running.placed = from_ms(100'000);
  now_running.started = from_ms(110'000);
  job.attempts = {first, never_started, now_running};
  CHECK(running_time(job, from_ms(115'000)) == Milliseconds{35'000});
  job.ended = from_ms(112'000);
  CHECK(running_time(job, from_ms(500'000)) == Milliseconds{32'000});
  CHECK(running_time(JobSummary{}, from_ms(500'000)) == Milliseconds{0});
}

TEST_CASE("a job whose nodes come and go says how many it may have and how many it has") {
  const JobRow row = a_row(2, 4, "n1,n2,n3");
  CHECK(is_elastic_row(row));
  CHECK(node_range_text(row) == "2-4 nodes, 3 now");
  CHECK(nodes_cell(row) == "2-4, 3 now");
}

TEST_CASE("a job that waits or has ended has none of the nodes of its last attempt") {
  CHECK(node_range_text(a_row(2, 4, "n1,n2", "Queued")) == "2-4 nodes");
  CHECK(node_range_text(a_row(2, 4, "", "NotStarted")) == "2-4 nodes");
  JobRow ended = a_row(2, 4, "n1,n2", "Completed");
  ended.ended_at = from_ms(1);
  CHECK(nodes_cell(ended) == "2-4");
}

TEST_CASE("a job with a fixed number of nodes says that number, one of an older muster nothing") {
  CHECK_FALSE(is_elastic_row(a_row(3, 3, "n1,n2,n3")));
  CHECK(nodes_cell(a_row(3, 3, "n1,n2,n3")) == "3");
  CHECK(nodes_cell(a_row(0, 0, "n1")) == "");
}
