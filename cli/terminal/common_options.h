// The options that every verb understands. Plain values, filled by the command line, read by verbs.
#pragma once

#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "scheduler/model/exit_code.h"
#include "scheduler/model/result.h"

namespace muster {

// The last three are forms that monitors read: of `health` only.
enum class OutputFormat { table, json, yaml, tsv, none, jsonl, prometheus, nagios };
inline bool is_for_monitors(OutputFormat form) {
  return form > OutputFormat::none;
}
enum class ColorChoice { automatic, always, never };

struct CommonOptions {
  OutputFormat output = OutputFormat::table;
  ColorChoice color = ColorChoice::automatic;
  std::string query;              // dotted path into the JSON output, empty: all of it
  bool only_show_errors = false;  // no notices, warnings and progress
  bool verbose = false;
  std::vector<std::string> cluster_files;  // empty: $MUSTER_CONFIG, else the user's directory
};

// What a verb returns to the shell when its own work fails, as plain numbers; the end of a job has
// the whole table of `ExitCode`. Numbers only: nothing is told here.

inline constexpr int usage_error = 2;  // the words of the command line do not fit together
inline constexpr int plain_failure = static_cast<int>(ExitCode::failure);
inline constexpr int invalid_file = static_cast<int>(ExitCode::invalid_job);
inline constexpr int internal_error = static_cast<int>(ExitCode::internal);

// How a verb ends before its work is done: why is thrown, and told where verbs are run (an empty
// sentence was told already). Not in a process of its own beside the verb's, and not once the exit
// code is another's, such as a job's.
struct VerbEnd : std::runtime_error {
  VerbEnd(int code, const std::string& sentence) : std::runtime_error(sentence), exit_code(code) {}
  int exit_code;
};

// The value. An Error ends the verb: its sentence, behind `before`.
template <class T>
T or_end(Result<T> result, int exit_code = internal_error, const std::string& before = "") {
  if (!result) throw VerbEnd(exit_code, before + result.error().message);
  return std::move(*result);
}

}  // namespace muster
