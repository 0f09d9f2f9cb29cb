// What a program of an attempt that speaks to its agent has to know: `ssh`, `pdsh` and mpi-start;
// and what other launchers ask of `ssh` and `pdsh`, taken from their words.
#pragma once

#include <string>
#include <vector>

#include "launcher/os/fd.h"
#include "scheduler/model/ids.h"
#include "scheduler/model/outcome.h"
#include "scheduler/model/result.h"

namespace muster {

// Which attempt this process belongs to, and where its agent listens.
struct OwnAttempt {
  std::string socket;
  JobId job;
  AttemptId attempt;
};
Result<OwnAttempt> own_attempt();

// Connected to the agent, which is asked to have this command run there.
Result<Fd> ask_for_start(const OwnAttempt& own, const std::string& host,
                         const std::string& command);

// As shells have it.
inline int code_of(const ExitStatus& status) {
  return status.signal != 0 ? 128 + status.signal : status.code;
}

// What ssh itself returns when it cannot reach the host: launchers know it.
inline constexpr int no_connection = 255;

// The following are pure functions.

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
