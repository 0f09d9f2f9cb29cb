// Whether what a drill expected came true: each expectation against the facts, and the report of
// that for people and machines. Reads files of jobs; changes nothing.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "cli/terminal/common_options.h"
#include "cli/terminal/document.h"
#include "launcher/controller/store/home.h"
#include "scheduler/model/ids.h"
#include "tools/drill/file.h"

namespace muster {

struct Verdict {
  std::string what;    // `exit_code`
  std::string wanted;  // `0`
  std::string found;   // `137`
  bool met = false;
};

struct DrillFacts {
  std::string status;
  int exit_code = 0;
  std::int64_t attempts = 0;
  std::vector<std::string> explain;    // lines of `muster explain`
  std::vector<std::string> leftovers;  // processes of the job that still live
  std::filesystem::path job;           // directory of the job
  std::filesystem::path calm;          // of the reference run; empty: there was none
};

// In the order of the format's description.
std::vector<Verdict> judge(const DrillExpectations& expect, const DrillFacts& facts);

// What differs between two directories, as one phrase; empty: the same files with the same bytes.
// `paths`: only these; a directory without files is a difference too.
std::string difference(const std::filesystem::path& one, const std::filesystem::path& other,
                       const std::vector<std::string>& paths);

// Where the numbers that lines `pattern` hold do not go up by one; empty: they do. `numbers` counts
// them.
std::string gap_in(const std::string& text, const std::string& pattern, std::int64_t& numbers);

struct DrilledStep {
  int line = 0;
  std::string what;
  std::optional<Milliseconds> at;
  std::string outcome;
  bool done = false;
};

struct DrillReport {
  std::string job;
  std::string calm_job;  // empty: none
  std::uint64_t seed = 0;
  bool sandbox = false;
  std::vector<DrilledStep> steps;
  std::vector<Verdict> verdicts;
  bool passed() const;
};

// {job, seed, calm_job, sandbox: bool, passed,
//  steps: [{line, what, at_s, outcome, done}], expectations: [{what, wanted, found, met}]}
Document report_document(const DrillReport& report);
void print_drill_report(const DrillReport& report, const CommonOptions& common);

}  // namespace muster
