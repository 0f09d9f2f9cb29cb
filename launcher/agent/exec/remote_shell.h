// What other launchers ask of `ssh` and `pdsh`, taken from their words: on which hosts, which
// command. Pure functions.
#pragma once

#include <string>
#include <vector>

#include "scheduler/model/result.h"

namespace muster {

struct RemoteCall {
  std::vector<std::string> hosts;
  std::string command;
  bool is_pattern = false;     // %h, %n, %u and %% in the command are to be replaced
  bool is_labelled = false;    // each line of output begins with its host
  bool returns_codes = false;  // the largest; else 0, as pdsh without -S
};

// `ssh [options] [USER@]HOST [options] WORDS…`
Result<RemoteCall> read_ssh_words(const std::vector<std::string>& words);

// `pdsh [options] -w HOST,… WORDS…`
Result<RemoteCall> read_pdsh_words(const std::vector<std::string>& words);

// The command for the host of that place in the list: %h its name, %n the place, %u the user.
std::string command_for(const RemoteCall& call, std::size_t place, const std::string& user);

// DeepSpeed ends what it started with `pkill -f PATTERN` on every host, which would meet other
// jobs; in its place comes `muster agent pkill PATTERN`. Other commands stay as they are.
std::string with_own_pkill(const std::string& command);

}  // namespace muster
