// Whether what a drill expected came true: each expectation against the facts. Reads files of jobs
// and /proc; changes nothing.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "cli/drill_file.h"
#include "launcher/controller/store/home.h"
#include "scheduler/model/ids.h"

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
  std::filesystem::path calm;          // of the undisturbed run; empty: there was none
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

}  // namespace muster
