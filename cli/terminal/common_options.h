// The options that every verb understands. Plain values, filled by the command line, read by verbs.
#pragma once

#include <string>
#include <vector>

namespace muster {

// The last three are forms that monitors read: of `health` only.
enum class OutputFormat { table, json, yaml, tsv, none, jsonl, prometheus, nagios };
enum class ColorChoice { automatic, always, never };

struct CommonOptions {
  OutputFormat output = OutputFormat::table;
  ColorChoice color = ColorChoice::automatic;
  std::string query;              // dotted path into the JSON output, empty: all of it
  bool only_show_errors = false;  // no notices, warnings and progress
  bool verbose = false;
  std::vector<std::string> cluster_files;  // empty: $MUSTER_CONFIG, else the user's directory
};

}  // namespace muster
