// What happened to a job and why, for a person: one line for each thing worth telling, with the
// rule and the evidence behind each decision.
#pragma once

#include <string>
#include <vector>

#include "scheduler/model/record.h"

namespace muster {

struct ExplainLine {
  Time at;
  std::string text;
};

// `records`: one job's, in order; records about the links of its nodes may be among them.
std::vector<ExplainLine> explain(const std::vector<Record>& records);

// The same as lines that begin with the time since the first record: "+12.3 s  attempt 0 …".
std::vector<std::string> explain_text(const std::vector<Record>& records);

}  // namespace muster
