#include "launcher/agent/container/place.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <sstream>

#include "launcher/agent/node/process_scan.h"
#include "launcher/os/read_file.h"
#include "scheduler/text/number.h"
#include "scheduler/text/text.h"

namespace muster {

namespace {

std::string namespace_path(pid_t pid) {
  return "/proc/" + std::to_string(pid) + "/ns/pid";
}

std::uint64_t namespace_of(pid_t pid) {
  struct stat facts {};
  return ::stat(namespace_path(pid).c_str(), &facts) == 0 ? facts.st_ino : 0;
}

std::string note_path(const std::string& spool) {
  return spool + "/holder";
}

// Numbers of processes come again; with the time when it began it is that very one.
std::string note_of(const ProcessInfo& holder, const std::string& boot_id) {
  return boot_id + " " + std::to_string(holder.pid) + " " + std::to_string(holder.start_ticks);
}

}  // namespace

Result<ContainerProcesses> ContainerProcesses::of(pid_t holder, const std::string& spool,
                                                  const std::string& boot_id) {
  const auto process = read_process(holder);
  if (!process) return Error{"the container has ended"};
  const std::string note = note_of(*process, boot_id);
  if (!replace_file(note_path(spool), note, 0600, Durable::in_cache)) {
    return system_error("write " + note_path(spool));
  }
  ContainerProcesses found = noted(spool, boot_id);
  if (found.namespace_) return found;
  return Error{"the container has ended, or no process namespace of its own"};
}

ContainerProcesses ContainerProcesses::noted(const std::string& spool, const std::string& boot_id) {
  ContainerProcesses found;
  const std::string note = text_of_file(note_path(spool));
  const auto words = words_in(note);
  const auto number = words.size() == 3 ? read_integer(words[1]) : std::nullopt;
  if (!number) return found;
  const auto pid = static_cast<pid_t>(*number);
  Fd opened(::open(namespace_path(pid).c_str(), O_RDONLY | O_CLOEXEC));
  const auto holder = read_process(pid);  // lives: what was opened is its own
  struct stat facts {};
  const bool is_its = opened && holder && !holder->is_dead() && note_of(*holder, boot_id) == note &&
                      ::fstat(opened.get(), &facts) == 0;
  if (!is_its || facts.st_ino == namespace_of(::getpid())) return found;
  found.namespace_ = std::move(opened);
  found.number_ = facts.st_ino;
  return found;
}

std::set<pid_t> ContainerProcesses::list() const {
  std::set<pid_t> inside;
  if (!namespace_) return inside;
  for (const ProcessInfo& process : scan_processes()) {
    if (namespace_of(process.pid) == number_) inside.insert(process.pid);
  }
  return inside;
}

pid_t ContainerProcesses::outside(pid_t inside) const {
  const std::string number = std::to_string(inside);
  for (const pid_t pid : list()) {
    std::istringstream lines(text_of_file("/proc/" + std::to_string(pid) + "/status"));
    for (std::string line; std::getline(lines, line);) {
      if (line.starts_with("NSpid:") && words_in(line).back() == number) return pid;
    }
  }
  return 0;
}

}  // namespace muster
