#include "launcher/agent/keeper/cgroup.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <sstream>
#include <vector>

#include "launcher/os/fd.h"
#include "launcher/os/read_file.h"

namespace muster {

namespace {

std::string note_path(const std::string& spool) {
  return spool + "/group";
}

// "36 35 98:0 /root /mount/point rw,noatime shared:1 - cgroup2 cgroup2 rw"
std::optional<std::string> mount_point(const std::string& line) {
  const std::size_t dash = line.find(" - cgroup2 ");
  if (dash == std::string::npos) return std::nullopt;
  std::istringstream fields(line);
  std::string skipped, root, point;
  fields >> skipped >> skipped >> skipped >> root >> point;
  return root == "/" ? std::optional(point) : std::nullopt;
}

// The group and all below it, each before its parent.
std::vector<std::string> groups_of(const std::string& path) {
  std::vector<std::string> found;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(path, ignored)) {
    if (!entry.is_directory(ignored) || entry.is_symlink(ignored)) continue;
    for (std::string& below : groups_of(entry.path().string())) found.push_back(std::move(below));
  }
  found.push_back(path);
  return found;
}

}  // namespace

std::optional<std::string> own_group(const std::string& mounts, const std::string& groups) {
  std::istringstream lines(mounts);
  std::optional<std::string> point;
  for (std::string line; !point && std::getline(lines, line);) point = mount_point(line);
  if (!point) return std::nullopt;
  std::istringstream own(groups);
  for (std::string line; std::getline(own, line);) {
    if (!line.starts_with("0::/")) continue;
    const std::string path = line.substr(3);
    if (path.find("/..") != std::string::npos) return std::nullopt;  // of another namespace
    return path == "/" ? *point : *point + path;
  }
  return std::nullopt;
}

std::optional<AttemptGroup> AttemptGroup::make(const std::string& name, const std::string& spool) {
  const auto parent =
      own_group(text_of_file("/proc/self/mountinfo"), text_of_file("/proc/self/cgroup"));
  if (!parent) return std::nullopt;
  AttemptGroup group(*parent + "/muster-" + name);
  if (::mkdir(group.path_.c_str(), 0755) != 0 && errno != EEXIST) return std::nullopt;
  const std::string list = group.path_ + "/cgroup.procs";
  const bool is_ours = ::access(list.c_str(), W_OK) == 0 &&
                       replace_file(note_path(spool), group.path_ + "\n", 0600, Durable::in_cache);
  if (is_ours) return group;
  group.remove();
  return std::nullopt;
}

std::optional<AttemptGroup> AttemptGroup::noted(const std::string& spool) {
  const std::string note = text_of_file(note_path(spool));
  if (note.empty() || note.back() != '\n') return std::nullopt;
  AttemptGroup group(note.substr(0, note.size() - 1));
  if (::access((group.path_ + "/cgroup.procs").c_str(), R_OK) != 0) return std::nullopt;
  return group;
}

std::set<pid_t> AttemptGroup::members() const {
  std::set<pid_t> found;
  for (const std::string& path : groups_of(path_)) {
    std::istringstream list(text_of_file(path + "/cgroup.procs"));
    for (pid_t pid = 0; list >> pid;) {
      if (pid > 0) found.insert(pid);  // 0: outside of our namespace of processes
    }
  }
  return found;
}

// Kernels before 5.14 have no such file: then each process is killed by itself.
void AttemptGroup::kill() const {
  const Fd all(::open((path_ + "/cgroup.kill").c_str(), O_WRONLY | O_CLOEXEC));
  if (all) [[maybe_unused]]
    const ssize_t told = ::write(all.get(), "1", 1);
}

void AttemptGroup::remove() const {
  for (const std::string& path : groups_of(path_)) ::rmdir(path.c_str());
}

}  // namespace muster
