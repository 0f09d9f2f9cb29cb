#include "launcher/agent/shell_children.h"

#include <unistd.h>

#include <cstdio>
#include <string>

namespace muster {

namespace {

bool is_shell(pid_t pid) {
  char path[64];
  std::snprintf(path, sizeof path, "/proc/%d/exe", pid);
  char target[4096];
  const ssize_t length = ::readlink(path, target, sizeof target);
  if (length <= 0) return false;
  const std::string program(target, static_cast<std::size_t>(length));
  const std::string name = program.substr(program.rfind('/') + 1);
  return name == "bash" || name == "sh" || name == "dash" || name == "busybox";
}

}  // namespace

std::vector<ProcessInfo> children_of_shell(const ProcessInfo& process) {
  std::vector<ProcessInfo> children;
  if (!is_shell(process.pid)) return children;
  for (ProcessInfo& other : scan_processes()) {
    if (other.parent == process.pid && !other.is_dead()) children.push_back(std::move(other));
  }
  return children;
}

}  // namespace muster
