#include "launcher/agent/attempt/shell_children.h"

#include <string>

namespace muster {

namespace {

bool is_shell(const std::string& program) {
  const std::string name = program.substr(program.rfind('/') + 1);
  return name == "bash" || name == "sh" || name == "dash" || name == "busybox";
}

}  // namespace

std::vector<ProcessInfo> children_of_shell(ProcessTable& table, const ProcessInfo& process) {
  std::vector<ProcessInfo> children;
  if (!is_shell(table.signs_of(process).program)) return children;
  for (ProcessInfo& other : table.scan()) {
    if (other.parent == process.pid && !other.is_dead()) children.push_back(std::move(other));
  }
  return children;
}

}  // namespace muster
