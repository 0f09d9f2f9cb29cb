// Findings: what a check has to say about one place in a file. Plain values for any thread; nothing
// here decides what happens next, the command line does (an error or unresolved item: exit 90).
//
// A FindingList gathers them while a file is read. It is bounded: a hostile file cannot make it
// grow.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace muster {

enum class Severity {
  error,       // the file is refused
  unresolved,  // parses, but cannot start: a name, asset, placeholder or step type is not known
               // here
  warning,
  note,
};

// One text that was read: a file, or one `--set` option (then without lines).
struct Source {
  std::string path;       // as the user wrote it; for an option `--set a.b`
  std::string directory;  // absolute, what relative paths inside mean
  std::string text;
  int order = 0;  // position in reading order; findings print in it
};

// Where something stands. Lines and columns count from 1; line 0 means "no position inside".
struct Place {
  std::shared_ptr<const Source> source;
  int line = 0;
  int column = 0;  // in bytes
};

// Of a text, from 1 on, without its end; without data where there is no such line.
std::string_view line_of(std::string_view text, int line);

struct Finding {
  Severity severity = Severity::error;
  std::string file;
  int line = 0;
  int column = 0;           // in characters
  std::string key;          // dotted path of the setting, may be empty
  std::string message;      // what was expected, what was found
  std::string suggestion;   // what to write instead, may be empty
  std::string source_line;  // the line of the file, shortened when very long
  int order = 0;            // of the source
};

const char* severity_name(Severity severity);
bool has_errors(const std::vector<Finding>& findings);
bool has_unresolved(const std::vector<Finding>& findings);
// In line order, files in reading order.
void sort_findings(std::vector<Finding>& findings);

// `job.yml:12:3: error: message; suggestion`, then the source line and a caret under the column.
// Control characters of the file are replaced, so the text is safe to print on a terminal.
std::string print(const Finding& finding);

// A Finding about `place`; also used by checks that run after the file was read.
Finding finding_at(Severity severity, const Place& place, std::string key, std::string message,
                   std::string suggestion = "");

class FindingList {
 public:
  void add(Severity severity, const Place& place, std::string key, std::string message,
           std::string suggestion = "");
  // From here on findings carry no source line: the file holds secrets.
  void hide_source_lines() { hide_lines_ = true; }
  // Leaves the list empty.
  std::vector<Finding> take_sorted();
  // True when further findings are only counted: suggestions for them need not be computed.
  bool full() const;

 private:
  std::vector<Finding> findings_;
  int dropped_ = 0;
  bool hide_lines_ = false;
};

}  // namespace muster
