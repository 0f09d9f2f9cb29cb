// How many nodes a job may have, and has: a fixed number, or between two while it runs. Pure text.
#pragma once

#include <string>

#include "launcher/controller/store/journal.h"

namespace muster {

// It goes on while nodes come and go.
bool is_elastic_row(const JobRow& row);

// Of an elastic job: "2-4 nodes, 3 now"; without the last part when it has none.
std::string node_range_text(const JobRow& row);
// In a table, of any job: "2-4, 3 now", "3", nothing.
std::string nodes_cell(const JobRow& row);

}  // namespace muster
