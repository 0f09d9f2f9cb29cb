// Runs the verb that the command line names; cli/verbs/verbs.def is the table of contents.
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <filesystem>
#include <string>
#include <vector>

#include "cli/process_verbs.h"
#include "cli/terminal/common_options.h"
#include "cli/terminal/terminal.h"
#include "cli/verbs/verbs.h"
#include "launcher/os/child.h"
#include "scheduler/model/exit_code.h"

namespace muster {

namespace {

// Old names of what another program does: `muster sandbox up`, `muster drill FILE`.
int run_sandbox_program(std::vector<std::string> words) {
  const auto program = std::filesystem::path(own_program()).parent_path() / "muster-sandbox";
  if (words.front() == "sandbox") words.erase(words.begin());
  words.insert(words.begin(), program);
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  ::execv(program.c_str(), arguments.data());
  return complain("cannot start " + program.string() + ": " + std::strerror(errno) +
                      "; install muster-sandbox beside muster",
                  plain_failure, {});
}

int run_verb(const std::vector<std::string>& words) {
  CommandLine line;
  add_verbs(line);
  add_controller(line);
  const ParsedLine parsed = line.parse(words);
  if (!parsed.action) {
    write_all(parsed.exit_code == 0 ? Stream::out : Stream::err, parsed.text);
    return parsed.exit_code;
  }
  for (const std::string& option : parsed.ignored) {
    notice("note: " + option + " has no effect", line.common());
  }
  return parsed.action(line.common());
}

int start(std::vector<std::string> words) {
  const std::string first = words.empty() ? "" : words.front();
  if (first == "agent") return agent_process({words.begin() + 1, words.end()});
  if (first == "sandbox" || first == "drill") return run_sandbox_program(std::move(words));
  if (first == "--version") words.front() = "version";
  return run_verb(words);
}

}  // namespace

}  // namespace muster

int main(int count, char** words) {
  muster::hold_standard_descriptors();
  try {
    return muster::start({words + 1, words + count});
  } catch (const std::exception& bug) {
    std::fprintf(stderr, "muster: internal error: %s\n", bug.what());
    return static_cast<int>(muster::ExitCode::internal);
  }
}
