// `muster-sandbox`: simulated hosts on this machine, and faults for jobs that run on them.
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "cli/terminal/terminal.h"
#include "scheduler/model/exit_code.h"
#include "tools/verbs.h"

namespace muster {

namespace {

int start(const std::vector<std::string>& words) {
  CommandLine line(sandbox_program);
  add_sandbox_verbs(line);
  add_drill(line);
  const ParsedLine parsed = line.parse(words);
  if (parsed.action) return parsed.action(line.common());
  write_all(parsed.exit_code == 0 ? Stream::out : Stream::err, parsed.text);
  return parsed.exit_code;
}

}  // namespace

}  // namespace muster

int main(int count, char** words) {
  muster::hold_standard_descriptors();
  try {
    return muster::start({words + 1, words + count});
  } catch (const std::exception& bug) {
    std::fprintf(stderr, "muster-sandbox: internal error: %s\n", bug.what());
    return static_cast<int>(muster::ExitCode::internal);
  }
}
