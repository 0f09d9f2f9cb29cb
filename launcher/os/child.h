// Starts a program of this machine with chosen file descriptors; nothing else of ours leaks into
// it.
#pragma once

#include <sys/types.h>

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/os/fd.h"
#include "scheduler/model/outcome.h"
#include "scheduler/model/result.h"
#include "scheduler/text/clock.h"

namespace muster {

struct Inherit {
  int ours;
  int theirs;  // 0, 1, 2 or above
};

// The program is looked up in PATH; signals are reset to their defaults. Standard descriptors that
// are not named in `inherited` are /dev/null.
Result<pid_t> spawn(std::span<const std::string> argv, std::span<const Inherit> inherited);

// A program of this machine run to its end, within a time limit, with this to read. Blocks for
// that long at most. No shell: the words are the program's arguments.

// What it wrote to standard output; an Error when it ended with anything but 0, with its last
// words, or did not end in time, in which case it is killed with what it started.
Result<std::string> run_within(const std::vector<std::string>& argv, Milliseconds limit,
                               std::string_view input = {});

// Signals as people write them: "SIGTERM", "TERM", "15". Pure.

std::optional<int> signal_number(const std::string& name);

// The last of what a command writes, for whoever looks at it now and then and must never wait.

// A pipe whose read end does not block; the command's own blocks, as any program expects. Nothing:
// errno says why.
std::optional<PipeEnds> tail_pipe();

// Appends what is there, as much as a pipe holds at most: one that writes on holds nobody up. Of
// all `text` the last 8 KiB are kept.
void read_tail(int from, std::string& text);

// The file this process was started from, so that it can start another of its kind. Where that file
// has been replaced, removed or hidden meanwhile (an upgrade, a copy by somebody else, a mount), a
// name by which the system still has it, good as long as this process lives.

std::string self_exe();

// A variable of our own environment; empty where it is not set.
std::string environment(const char* name);

// How a child ended, as waitpid says it.

ExitStatus exit_status_of(int wait_status);

}  // namespace muster
