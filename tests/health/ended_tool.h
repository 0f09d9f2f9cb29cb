// What came of a tool, for tests of whoever reads it.
#pragma once

#include <string>
#include <utility>

#include "health/read/tool_process.h"

namespace muster {

inline ToolRun ended(int code, std::string output, std::string errors = "") {
  ToolRun run;
  run.exit_code = code;
  run.output = std::move(output);
  run.errors = std::move(errors);
  return run;
}

inline ToolRun not_installed() {
  ToolRun run;
  run.is_found = false;
  return run;
}

}  // namespace muster
