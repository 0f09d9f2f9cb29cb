// The table of muster's settings: one row for each dotted path, with the check and the place in the
// JobSpec. The defaults are those of MusterSettings.
#pragma once

#include <string>
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
  SettingShape shape = SettingShape::scalar;
  void (*read)(const Value& value, JobSpec& spec) = nullptr;
};

const std::vector<Setting>& setting_table();

}  // namespace muster
