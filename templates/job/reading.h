// What the readers of one job file share while it is read: where findings go, the caller's options,
// and the other files it names. Lives as long as one call of `read_job_file`; not for other code.
#pragma once

#include <deque>
#include <optional>
#include <string>

#include "templates/yaml/read_options.h"
#include "templates/yaml/value.h"

namespace muster {

class Reading {
 public:
  Reading(FindingList& findings_in, const ReadOptions& options_in)
      : findings(findings_in), options(options_in) {}

  FindingList& findings;
  const ReadOptions& options;

  // The content of the file that `value` names in `text`, relative to the file `value` is in; its
  // own relative paths start from its own directory. Absent after a finding.
  std::optional<Value> load(const Value& value, const std::string& text);

  // A node made while reading that values may point into, such as a list split from a string.
  const YamlNode& keep(YamlNode node);

  // `text`, found in `value`, as an absolute path.
  static std::string local_path(const Value& value, const std::string& text);

 private:
  std::deque<YamlNode> kept_;
  int sources_ = 0;
  std::size_t bytes_ = 0;
};

}  // namespace muster
