// What ibnetdiscover, iblinkinfo, ibqueryerrors and sminfo say, as data. Texts that are malformed,
// cut off or huge give less and say so in the reading; nothing here throws.
//
// A text is a tool's standard output and behind it its standard error: in one pipe the two would
// cut each other's lines. Its error is set when the tool could not run, was stopped at its deadline
// or failed; that ibqueryerrors and sminfo exit with 1 and more when they found something or heard
// nobody is an answer.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "health/fabric/fabric.h"
#include "health/model/source_files.h"

namespace muster {

// `ibnetdiscover` or `ibnetdiscover -p`. Has no states; the plain form leaves out what is not
// linked.
Fabric read_ibnetdiscover(const FileReading& said);

// `iblinkinfo -l`: a line for each port.
Fabric read_iblinkinfo(const FileReading& said);

// `ibqueryerrors --data`, with --details, --report-port or --counters or without.
struct FabricErrors {
  std::map<FabricEnd, std::map<std::string, std::uint64_t>> counters;  // those above 0
  std::map<std::uint64_t, std::string> names;
  // Up to this a counter is not told, by the tool's own settings.
  std::map<std::string, std::uint64_t> thresholds;
  std::set<std::string> suppressed;                  // never told
  std::set<std::pair<std::string, int>> unanswered;  // a node's name and port; 255: all of them
  int failed_queries = 0;
  bool has_summary = false;
  ToolReading reading;
  // A port that is not listed has no errors only then.
  bool is_whole() const { return reading.is_whole() && has_summary; }
};
FabricErrors read_ibqueryerrors(const FileReading& said);

// `sminfo`
struct SubnetManager {
  std::string state;  // "SMINFO_MASTER"; empty: nobody answered
  int lid = 0;
  std::uint64_t guid = 0;
};
// Nothing when the tool could not ask.
std::optional<SubnetManager> read_sminfo(const FileReading& said);

}  // namespace muster
