// What ibnetdiscover, iblinkinfo, ibqueryerrors and sminfo say, as data. Texts that are malformed,
// cut off or huge give less and say so in the reading; nothing here throws.
//
// A text is a tool's standard output and behind it its standard error: in one pipe the two would
// cut each other's lines. Its error is set when the tool could not run, was stopped at its deadline
// or failed; that ibqueryerrors and sminfo exit with 1 and more when they found something or heard
// nobody is an answer.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "health/fabric/fabric.h"
#include "health/model/source_files.h"
#include "scheduler/text/text.h"

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

// Takes a text apart from left to right. Node descriptions hold any bytes, so names are found by
// the quotes around them and never by what they may not contain.
class TextCursor {
 public:
  explicit TextCursor(std::string_view text) : rest_(text) {}

  // Each skips blanks, and takes nothing when what comes is something else.
  bool take(std::string_view literal);
  std::string_view take_word();  // up to a blank
  std::optional<std::uint64_t> take_number();
  std::optional<std::uint64_t> take_hex();   // with 0x or without; never 0: no GUID is
  std::optional<int> take_port();            // 0 to 254
  std::optional<std::uint64_t> take_guid();  // "0x…"

  std::string_view rest() const { return rest_; }

 private:
  void skip_blanks();
  std::string_view rest_;
};

// What stands between the first and the last `quote`, without the blanks at its ends.
std::optional<std::string_view> quoted_text(std::string_view text, char quote);
// "4x", "4X": 4.
std::optional<int> lanes_of(std::string_view width);

// Gives each line that is not blank to `read`, which says whether it understood it; counts those
// that were not, lines that are too long, and a text that ends within a line. A tool's own warnings
// are complaints, no lines of its answer.
ToolReading read_lines(const FileReading& said, const std::function<bool(std::string_view)>& read);

}  // namespace muster
