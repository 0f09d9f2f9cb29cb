#include "launcher/agent/keeper/orphan_processes.h"

#include <unistd.h>

#include <set>

#include "launcher/agent/keeper/cgroup.h"
#include "launcher/agent/keeper/files.h"
#include "launcher/agent/keeper/layout.h"
#include "launcher/agent/keeper/processes.h"
#include "launcher/agent/keeper/stop.h"

namespace muster {

namespace {

std::vector<AttemptGroup> groups_of_run(const RunDirectory& run) {
  std::vector<AttemptGroup> groups;
  for (const AttemptKey& key : attempts_below(spools_root(run))) {
    if (auto group = AttemptGroup::noted(layout_of(run, key).spool)) groups.push_back(*group);
  }
  return groups;
}

ProcessMarks marks_of_run(const RunDirectory& run) {
  ProcessMarks marks;
  marks.agent = ::getpid();
  marks.is_token = [&run](const std::string& token) { return is_token_of_run(run, token); };
  marks.socket_path = run.socket_path();
  marks.spool_prefix = spools_root(run) + "/";
  marks.takes_orphans = false;  // the caller has not started anything yet
  return marks;
}

std::set<pid_t> members_of(const std::vector<AttemptGroup>& groups) {
  std::set<pid_t> members;
  for (const AttemptGroup& group : groups) members.merge(group.members());
  return members;
}

}  // namespace

Status end_orphan_processes(ProcessTable& table, const RunDirectory& run) {
  const std::vector<AttemptGroup> groups = groups_of_run(run);
  ProcessMarks marks = marks_of_run(run);
  const auto survivors = kill_until_gone(table, [&] {
    marks.members = members_of(groups);
    auto found = find_attempt_processes(table, marks);
    if (found.empty()) return found;
    for (const AttemptGroup& group : groups) group.kill();
    return found;
  });
  if (!survivors.empty()) {
    return Error{"processes of an earlier agent survive SIGKILL: " + survivors.front() + " and " +
                 std::to_string(survivors.size() - 1) + " more; the node needs a reboot"};
  }
  for (const AttemptGroup& group : groups) group.remove();
  return Done{};
}

}  // namespace muster
