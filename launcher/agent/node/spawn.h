// Starting one process: explicit environment, working directory and descriptors, own session,
// killed by the kernel when its parent dies. The caller reaps it. Nothing of the agent leaks into
// it.
#pragma once

#include <sys/types.h>

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "scheduler/model/result.h"

namespace muster {

// The variables of this process.
std::map<std::string, std::string> own_environment();

// "NAME=value", as a process gets them.
std::vector<std::string> entries_of(const std::map<std::string, std::string>& environment);

// As exec takes them: pointers into `words`, and a null.
std::vector<char*> exec_words(std::vector<std::string>& words);

struct SpawnRequest {
  std::vector<std::string> argv;  // argv[0] is looked up in the PATH of `environment`
  std::map<std::string, std::string> environment;
  std::string directory;
  std::optional<int> input;  // absent: /dev/null
  int output = 1;
  int errors = 2;
  bool has_terminal = false;  // `input` is one: it becomes that of the session
  std::optional<std::string> group{};  // directory of a control group, as far as that works
};

// Why no machine would run this, however often it is asked: what the kernel takes in one argument
// or variable, and in all of them together, is limited everywhere. Empty: it would.
std::string lasting_hindrance(const std::vector<std::string>& argv,
                              const std::map<std::string, std::string>& environment);

// The process has exec'd when this returns a pid.
Result<pid_t> spawn(const SpawnRequest& request);

// The path of `program` in a PATH-like list; nothing when no entry has an executable of that name.
// What is relative, an empty entry too, is of `directory`; without one it is left out.
std::optional<std::string> find_program(const std::string& program, const std::string& path_list,
                                        const std::string& directory = "");

// Undoes what a process inherits by accident: ignored and blocked signals.
void reset_signals();

}  // namespace muster
