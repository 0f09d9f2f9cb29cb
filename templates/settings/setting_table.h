// The table of muster's settings: one row for each dotted path, with the check and the place in the
// JobSpec. The defaults are those of MusterSettings.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "scheduler/model/job_spec.h"
#include "templates/yaml/value.h"

namespace muster {

enum class SettingShape {
  scalar,
  words,      // a list; among the properties joined by commas
  structure,  // maps; among the properties as JSON
};

struct Setting {
  std::string path;  // without `muster.`
  void (*read)(const Value& value, JobSpec& spec) = nullptr;
  SettingShape shape = SettingShape::scalar;
};

const std::vector<Setting>& setting_table();
// nullptr: there is none of that path.
const Setting* find_setting(std::string_view path);

// Restart rules as job files (`muster.rules`) and cluster files (`policy.rules`) write them:
//
//   - id: out-of-tokens               # default: its place in the list
//     when:                           # all that are given must hold
//       exit_code: [42, 60-69]        # a number, a range, or a list of them
//       signal: SIGUSR1               # name, number or a list; also as the exit code 128 + n
//       stderr_regex: 'no tokens'     # in one of the last lines (scheduler/restart/pattern.h)
//       xid: 79                       # an Xid that the last lines name
//     class: user                     # class, action or both
//     action: backoff                 # retry, backoff, stop or exclude_node
//     delay: 10m                      # of `retry` and `backoff`, instead of restart.delay
//     mode: enforce                   # log: only said in `explain`; so a `stop` begins
//     advice: ask for more tokens     # what `explain` tells the user
std::vector<RestartRule> read_rule_list(const Value& value);

}  // namespace muster
