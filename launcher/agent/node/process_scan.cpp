#include "launcher/agent/node/process_scan.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <memory>

#include "launcher/os/fd.h"
#include "scheduler/text/text.h"

namespace muster {

namespace {

// The kernel's own limit of an environment is a quarter of the stack limit, at most 6 MiB.
constexpr std::size_t environment_limit_bytes = 8u << 20;

// The kernel gives the line of `stat` in one piece: with the first byte all are there.
constexpr std::size_t stat_wanted_bytes = 1;

// In pieces, until so many bytes are there or no more come.
std::string read_proc_file(pid_t pid, const char* name, std::size_t wanted_bytes) {
  char path[64];
  std::snprintf(path, sizeof path, "/proc/%d/%s", pid, name);
  const Fd fd(::open(path, O_RDONLY | O_CLOEXEC));
  std::string text;
  if (!fd) return text;
  char buffer[16384];
  while (text.size() < wanted_bytes) {
    const ssize_t got = ::read(fd.get(), buffer, sizeof buffer);
    if (got <= 0) break;
    text.append(buffer, static_cast<std::size_t>(got));
  }
  return text;
}

// Of a symbolic link; empty where it cannot be read.
std::string target_of(const std::string& link) {
  char target[4096];
  const ssize_t length = ::readlink(link.c_str(), target, sizeof target);
  return length > 0 ? std::string(target, static_cast<std::size_t>(length)) : std::string();
}

// A thread of the process that still has its files and memory: the main one until it ends.
pid_t living_thread(const ProcessInfo& process) {
  if (process.state != 'Z') return process.pid;
  const std::string path = "/proc/" + std::to_string(process.pid) + "/task";
  const std::unique_ptr<DIR, int (*)(DIR*)> tasks(::opendir(path.c_str()), ::closedir);
  while (const dirent* entry = tasks ? ::readdir(tasks.get()) : nullptr) {
    const auto thread = static_cast<pid_t>(std::strtol(entry->d_name, nullptr, 10));
    if (thread > 0 && thread != process.pid) return thread;
  }
  return process.pid;
}

}  // namespace

std::optional<ProcessInfo> read_process(pid_t pid) {
  const std::string text = read_proc_file(pid, "stat", stat_wanted_bytes);
  const std::size_t open = text.find('(');
  const std::size_t close = text.rfind(')');  // a name may hold parentheses
  if (open == std::string::npos || close == std::string::npos || close < open) return {};
  ProcessInfo info;
  info.pid = pid;
  info.name = text.substr(open + 1, close - open - 1);
  unsigned long long start = 0, user = 0, system = 0;
  const int fields =
      std::sscanf(text.c_str() + close + 1,
                  " %c %d %d %d %*d %*d %u %*u %*u %*u %*u %llu %llu %*d %*d %*d %*d %d %*d "
                  "%llu",
                  &info.state, &info.parent, &info.group, &info.session, &info.flags, &user,
                  &system, &info.threads, &start);
  if (fields != 9) return {};
  info.cpu_ticks = user + system;
  info.start_ticks = start;
  return info;
}

std::vector<ProcessInfo> scan_processes() {
  std::vector<ProcessInfo> found;
  const std::unique_ptr<DIR, int (*)(DIR*)> proc(::opendir("/proc"), ::closedir);
  if (!proc) return found;
  while (const dirent* entry = ::readdir(proc.get())) {
    if (entry->d_name[0] < '1' || entry->d_name[0] > '9') continue;
    if (auto info = read_process(static_cast<pid_t>(std::strtol(entry->d_name, nullptr, 10))))
      found.push_back(std::move(*info));
  }
  return found;
}

std::string read_process_environment(pid_t pid) {
  return read_proc_file(pid, "environ", environment_limit_bytes);
}

std::optional<std::string> environment_entry(std::string_view block, const std::string& name) {
  const std::string start = name + "=";
  while (!block.empty()) {
    const std::string_view entry = take_until(block, '\0');
    if (entry.starts_with(start)) return std::string(entry.substr(start.size()));
  }
  return {};
}

bool signal_process(const ProcessInfo& process, int signal) {
  const Fd handle(static_cast<int>(::syscall(SYS_pidfd_open, process.pid, 0)));
  const bool has_handles = handle || errno != ENOSYS;  // kernels before 5.3 have none
  if (has_handles && !handle) return false;
  const auto now = read_process(process.pid);
  if (!now || now->start_ticks != process.start_ticks) return false;
  if (!has_handles) return ::kill(process.pid, signal) == 0;
  return ::syscall(SYS_pidfd_send_signal, handle.get(), signal, nullptr, 0) == 0;
}

void kill_session(pid_t session) {
  ::kill(-session, SIGKILL);
  for (const ProcessInfo& one : scan_processes()) {
    if (one.session == session && !one.is_dead()) signal_process(one, SIGKILL);
  }
}

std::string describe(const ProcessInfo& process) {
  return std::to_string(process.pid) + " (" + process.name + ")";
}

ProcessSigns HostProcesses::signs_of(const ProcessInfo& process) {
  const pid_t thread = living_thread(process);
  const std::string here = "/proc/" + std::to_string(thread);
  return {read_process_environment(thread),
          {target_of(here + "/fd/1"), target_of(here + "/fd/2")},
          target_of(here + "/exe")};
}

}  // namespace muster
