// How many nodes a job has, in words.
#include "cli/job/table.h"

#include "tests/catch.h"

namespace muster {
namespace {

JobRow a_row(int least, int most, std::string nodes, std::string state = "Running") {
  JobRow row;
  row.nodes_min = least;
  row.nodes_max = most;
  row.nodes = std::move(nodes);
  row.state = std::move(state);
  return row;
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

}  // namespace
}  // namespace muster
