#include "cli/job/node_range.h"

#include <algorithm>

namespace muster {

namespace {

// A job that waits has the nodes of its last attempt no more.
std::size_t nodes_now(const JobRow& row) {
  const bool waits = row.state == "Queued" || row.state == "NotStarted";
  if (row.ended_at || waits || row.nodes.empty()) return 0;
  return static_cast<std::size_t>(std::count(row.nodes.begin(), row.nodes.end(), ',')) + 1;
}

std::string range(const JobRow& row) {
  return std::to_string(row.nodes_min) + "-" + std::to_string(row.nodes_max);
}

std::string now_text(const JobRow& row) {
  const std::size_t nodes = nodes_now(row);
  return nodes == 0 ? "" : ", " + std::to_string(nodes) + " now";
}

}  // namespace

bool is_elastic_row(const JobRow& row) {
  return row.nodes_min < row.nodes_max;
}

std::string node_range_text(const JobRow& row) {
  return range(row) + " nodes" + now_text(row);
}

std::string nodes_cell(const JobRow& row) {
  if (is_elastic_row(row)) return range(row) + now_text(row);
  return row.nodes_max > 0 ? std::to_string(row.nodes_max) : "";
}

}  // namespace muster
