// Verbs that go to the nodes of a running job. `muster exec JOB -- CMD` and `muster ssh JOB`: a
// command or a shell beside a rank, in its directory and environment. `muster debug JOB --rank R`:
// what to type, or to give to VS Code, to debug a running rank, found on its node by debug.sh, as
// muster exec would run it. `muster ssh-config JOB`: settings with which ssh, scp, rsync and
// editors reach the nodes of a job as they reach any host.
#include <unistd.h>

#include <algorithm>
#include <sstream>

#include "cli/client/exec_session.h"
#include "cli/client/find.h"
#include "cli/client/start.h"
#include "cli/terminal/raw_terminal.h"
#include "cli/terminal/terminal.h"
#include "cli/verbs/verbs.h"
#include "launcher/os/child.h"
#include "scheduler/model/exit_code.h"
#include "scheduler/text/text.h"

namespace muster {

namespace {

struct ExecOptions {
  NodePlace place;
  bool terminal = false;
  std::vector<std::string> command;
};

// Why there is no rank to be beside; empty: there may be one.
std::string not_yet(const JobRow& row) {
  const auto early = words_in("NotStarted Queued Preparing Provisioning");
  if (std::ranges::count(early, row.state) == 0) return "";
  return "job " + row.name + " is not running yet: it is " + row.state +
         (row.reason.empty() ? "" : ": " + row.reason);
}

int run_in_terminal(ControllerClient client, Exec request, const CommonOptions& common) {
  RawTerminal terminal;
  request.channel = exec_channel();
  const WindowSize size = input_size();
  request.channel->terminal = TerminalShape{environment("TERM"), size.rows, size.columns};
  return ExecSession(std::move(client), {.terminal = &terminal}, common).run(request);
}

int exec_beside(const ExecOptions& options, const CommonOptions& common) {
  const Home home = Home::from_environment();
  if (options.terminal && ::isatty(STDIN_FILENO) == 0) {
    throw VerbEnd(usage_error, "standard input is not a terminal");
  }
  Exec request = request_at(options.place, home);
  request.argv = options.command;
  auto client = or_end(ensure_controller(home, common));
  if (options.terminal) return run_in_terminal(std::move(client), request, common);
  return ExecSession(std::move(client), {}, common).run(request);
}

// ---- debug

struct DebugOptions {
  NodePlace place;
  std::string with = "gdb";
};

int debug_rank(const DebugOptions& options, const CommonOptions& common) {
  const Home home = Home::from_environment();
  Exec request = request_at(options.place, home);
  request.rank = request.rank.value_or(RankId{0});
  request.argv = {"sh",        "-c", std::string(debug_script()), "debug", request.job.value,
                  options.with};
  auto client = or_end(ensure_controller(home, common));
  return ExecSession(std::move(client), {}, common).run(request);
}

// ---- ssh-config

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
    // Neither ssh's own file nor the shell of a ProxyCommand takes anything else as it stands.
    if (is_word_of(path, "/._-+@,:=")) continue;
    throw VerbEnd(internal_error,
                  "ssh's settings cannot hold the path " + path + ": use another one");
  }
  const auto found = job_or_end(home, request.job.value);
  if (found.row.ended_at) {
    throw VerbEnd(plain_failure, "job " + found.row.name + " has ended: " + found.row.state);
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

void declare_place(Arguments& of, NodePlace& place) {
  of.job(place.job, true);
  of.option("--rank", place.rank, "On the node of this rank (default 0)");
  of.option("--node", place.node, "On this node of the job, from 0");
}

Exec request_at(const NodePlace& place, const Home& home) {
  if (place.rank && place.node) {
    throw VerbEnd(usage_error, "--rank and --node exclude each other");
  }
  const auto found = job_or_end(home, place.job);
  const std::string why = not_yet(found.row);
  if (!why.empty()) throw VerbEnd(static_cast<int>(ExitCode::launch), why);
  Exec request;
  request.job = found.id();
  request.node = place.node;
  if (place.rank) request.rank = RankId{*place.rank};
  return request;
}

int open_shell(const NodePlace& place, const CommonOptions& common) {
  return exec_beside({place, true, {}}, common);
}

void add_exec(CommandLine& line) {
  line.verb<ExecOptions>(
      {"exec", "Run a command on the node of a rank: muster exec JOB --rank 3 -- nvidia-smi"},
      exec_beside, [](Arguments& of, ExecOptions& options) {
        declare_place(of, options.place);
        of.flag("-t,--tty", options.terminal, "In a terminal: for editors, debuggers, top");
        of.arguments("COMMAND", options.command, "Program and its arguments, after --");
      });
}

void add_ssh(CommandLine& line) {
  line.verb<NodePlace>({"ssh", "Open a login shell beside a rank, in its environment"}, open_shell,
                       declare_place);
}

void add_debug(CommandLine& line) {
  line.verb<DebugOptions>(
      {"debug", "Find a rank's process for gdb or debugpy: muster debug JOB --rank 3"}, debug_rank,
      [](Arguments& of, DebugOptions& options) {
        of.job(options.place.job, true);
        of.option("--rank", options.place.rank, "The rank (default 0)");
        of.choice("--with", options.with, {"gdb", "debugpy"},
                  "Default: gdb; debugpy can end the program");
      });
}

void add_ssh_config(CommandLine& line) {
  line.verb<std::string>(
      {"ssh-config", "Print settings with which ssh, scp and rsync reach a job's nodes"},
      print_ssh_config, [](Arguments& of, std::string& job) { of.job(job, true); });
}

}  // namespace muster
