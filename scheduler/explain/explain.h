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
  // Of the story in short: what broke, how each attempt but the last ended, where and from which
  // step the next one went on, and how the job ended.
  bool is_gist = false;
};

// `records`: one job's, in order; records about the links of its nodes may be among them.
// `is_brief`: the gist alone.
std::vector<ExplainLine> explain(const std::vector<Record>& records, bool is_brief = false);

// The same as lines that begin with the time since the first record: "+12.3 s  attempt 0 …".
std::vector<std::string> explain_text(const std::vector<Record>& records, bool is_brief = false);

}  // namespace muster
