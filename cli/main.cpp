// The table of contents: every verb of muster, in the order of its help.
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <filesystem>
#include <string>
#include <vector>

#include "cli/grammar/verbs.h"
#include "cli/process_verbs.h"
#include "cli/terminal/common_options.h"
#include "cli/terminal/terminal.h"
#include "launcher/os/child.h"
#include "scheduler/model/exit_code.h"

namespace muster {

namespace {

void add_verbs(CommandLine& line) {
  add_run(line);
  add_submit(line);
  add_plan(line);
  add_validate(line);
  add_init(line);
  add_list(line);
  add_status(line);
  add_explain(line);
  add_logs(line);
  add_cancel(line);
  add_resume(line);
  add_exec(line);
  add_download(line);
  add_nodes(line);
  add_drain(line);
  add_health(line);
  add_policy(line);
  add_checkpoint(line);
  add_job(line);
  add_clean(line);
  add_controller(line);
  add_completion(line);
  add_version(line);
}

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
  const ParsedLine parsed = line.parse(words);
  if (!parsed.action) {
    write_all(parsed.exit_code == 0 ? Stream::out : Stream::err, parsed.text);
    return parsed.exit_code;
  }
  for (const std::string& option : parsed.ignored) {
    notice("note: " + option + " means nothing to muster and is ignored", line.common());
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
