// The agent's log, `agent.log` in its run directory: one line per event, two files of bounded size.
// A full disk costs log lines and nothing else. One agent per process, its thread only.
#pragma once

#include <string>

namespace muster {

// Opens the log of a run directory and puts stdout and stderr there too.
bool open_log(int run_directory_fd);
void log_line(const std::string& sentence);

}  // namespace muster
