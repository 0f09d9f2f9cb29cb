// `muster ssh-config JOB`: settings with which ssh, scp, rsync and editors reach the nodes of a job
// as they reach any host.
#include <algorithm>
#include <cctype>
#include <sstream>

#include "cli/client/exec_session.h"
#include "cli/client/find.h"
#include "cli/client/start.h"
#include "cli/terminal/terminal.h"
#include "cli/verbs/verbs.h"
#include "scheduler/model/exit_code.h"

namespace muster {

namespace {

// Neither ssh's own file nor the shell that runs a ProxyCommand takes anything else as it stands.
bool is_plain(const std::string& path) {
  return std::ranges::all_of(path, [](unsigned char c) {
    return std::isalnum(c) != 0 ||
           std::string_view("/._-+@,:=").find(static_cast<char>(c)) != std::string_view::npos;
  });
}

// As the job was submitted: by node.
std::string account_on(const std::vector<Record>& records, const std::string& node) {
  const JobSubmitted* submitted = submission_in(records);
  for (const NodeAddress& address :
       submitted ? submitted->target.nodes : std::vector<NodeAddress>{}) {
    if (address.id.value == node && !address.user.empty()) return address.user;
  }
  return user_name();
}

std::string block(const Home& home, const JobId& job, std::size_t index, const std::string& user) {
  const std::string number = std::to_string(index);
  const std::string keys = ssh_directory(home, job).string();
  return "Host " + job.value + "-node-" + number + "\n  User " + user +
         "\n  ProxyCommand env MUSTER_HOME=" + home.root.string() + " " + muster_program() +
         " forward --stdio " + job.value + " --node " + number + " ssh\n  HostKeyAlias muster-" +
         job.value + "\n  UserKnownHostsFile " + keys +
         "/known_hosts\n  StrictHostKeyChecking yes\n  IdentityFile " + keys +
         "/identity\n  IdentitiesOnly yes\n  PasswordAuthentication no\n";
}

int print_ssh_config(const std::string& typed, const CommonOptions&) {
  const Home home = Home::from_environment();
  const Exec request = request_at({.job = typed, .rank = {}, .node = {}}, home);
  for (const std::string& path : {home.root.string(), muster_program()}) {
    if (is_plain(path)) continue;
    throw VerbEnd(internal_error,
                  "ssh's settings cannot hold the path " + path + ": use another one");
  }
  const auto found = job_or_end(home, request.job.value);
  if (found.row.ended_at) {
    throw VerbEnd(static_cast<int>(ExitCode::failure),
                  "job " + found.row.name + " has ended: " + found.row.state);
  }
  const auto records = or_end(found.store->records_of(request.job));
  or_end(ssh_keys_of(home, request.job));
  std::string text;
  std::size_t index = 0;
  std::istringstream nodes(found.row.nodes);
  for (std::string node; std::getline(nodes, node, ',');) {
    text += block(home, request.job, index++, account_on(records, node));
  }
  write_all(Stream::out, text);
  return 0;
}

}  // namespace

void add_ssh_config(CommandLine& line) {
  line.verb<std::string>(
      {"ssh-config", "Print settings with which ssh, scp and rsync reach a job's nodes"},
      print_ssh_config, [](Arguments& of, std::string& job) {
        of.argument("JOB", job, "Job name, or the beginning of one");
        of.offer("JOB", {.words = {}, .unfinished_jobs = true});
      });
}

}  // namespace muster
