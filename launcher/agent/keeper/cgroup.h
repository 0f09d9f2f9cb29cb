// The kernel's own list of an attempt's processes: a control group (version 2) that they are born
// into and that their descendants cannot leave by a new session, an emptied environment or a dead
// parent. Made where the agent may make one; where not, the marks of processes.h must do.
// Blocking file work, no threads.
#pragma once

#include <sys/types.h>

#include <optional>
#include <set>
#include <string>

namespace muster {

class AttemptGroup {
 public:
  // Makes it below this process's own group and notes its place in the directory `spool`, for the
  // agent after this one. Nothing where that is not possible.
  static std::optional<AttemptGroup> make(const std::string& name, const std::string& spool);
  // The one that was noted there.
  static std::optional<AttemptGroup> noted(const std::string& spool);

  const std::string& path() const { return path_; }
  std::set<pid_t> members() const;  // those of groups below it too
  void kill() const;                // all at once, so that none can fork away
  void remove() const;              // when it is empty, with the groups below it

 private:
  explicit AttemptGroup(std::string path) : path_(std::move(path)) {}

  std::string path_;
};

// This process's group in the file system of control groups, from the text of /proc/self/mountinfo
// and /proc/self/cgroup; nothing without version 2.
std::optional<std::string> own_group(const std::string& mounts, const std::string& groups);

}  // namespace muster
