#include "launcher/agent/node/process_table.h"

#include <sys/wait.h>
#include <unistd.h>

namespace muster {

namespace {

// Of a symbolic link; empty where it cannot be read.
std::string target_of(const std::string& link) {
  char target[4096];
  const ssize_t length = ::readlink(link.c_str(), target, sizeof target);
  return length > 0 ? std::string(target, static_cast<std::size_t>(length)) : std::string();
}

}  // namespace

std::vector<ProcessInfo> HostProcesses::scan() {
  return scan_processes();
}

std::optional<ProcessInfo> HostProcesses::find(pid_t pid) {
  return read_process(pid);
}

ProcessSigns HostProcesses::signs_of(const ProcessInfo& process) {
  const pid_t thread = living_thread(process);
  const std::string here = "/proc/" + std::to_string(thread);
  return {read_process_environment(thread), {target_of(here + "/fd/1"), target_of(here + "/fd/2")},
          target_of(here + "/exe")};
}

bool HostProcesses::signal(const ProcessInfo& process, int signal) {
  return signal_process(process, signal);
}

Result<pid_t> HostProcesses::start(const SpawnRequest& request) {
  return spawn(request);
}

pid_t HostProcesses::reap(int& wait_status) {
  return ::waitpid(-1, &wait_status, WNOHANG);
}

}  // namespace muster
