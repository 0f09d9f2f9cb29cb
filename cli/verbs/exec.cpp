// `muster exec JOB -- CMD` and `muster ssh JOB`: a command or a shell beside a rank, in its
// directory and environment.
#include <unistd.h>

#include "cli/client/exec_session.h"
#include "cli/client/find.h"
#include "cli/client/start.h"
#include "cli/terminal/raw_terminal.h"
#include "cli/terminal/terminal.h"
#include "cli/verbs/verbs.h"
#include "launcher/os/child.h"
#include "scheduler/model/exit_code.h"

namespace muster {

namespace {

struct ExecOptions {
  NodePlace place;
  bool terminal = false;
  std::vector<std::string> command;
};

// Why there is no rank to be beside; empty: there may be one.
std::string not_yet(const JobRow& row) {
  for (const char* state : {"NotStarted", "Queued", "Preparing", "Provisioning"}) {
    if (row.state != state) continue;
    return "job " + row.name + " is not running yet: it is " + state +
           (row.reason.empty() ? "" : ": " + row.reason);
  }
  return "";
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

}  // namespace

void declare_place(Arguments& of, NodePlace& place) {
  of.argument("JOB", place.job, "Job name, or the beginning of one");
  of.offer("JOB", {.words = {}, .unfinished_jobs = true});
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

}  // namespace muster
