// What mpirun calls: `muster agent mpi-start` in place of ssh, and `muster agent mpi-rank` for each
// rank.
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>

#include "health/checks/host/facts.h"
#include "launcher/agent/attempt/exit_log.h"
#include "launcher/agent/attempt/mpi_launch.h"
#include "launcher/agent/exec/remote_shell.h"
#include "launcher/agent/node/run_directory.h"
#include "launcher/agent/node/spawn.h"
#include "launcher/os/child.h"
#include "launcher/wire/message_codec.h"
#include "scheduler/text/text.h"

namespace muster {

namespace {

constexpr int not_startable = 127;
constexpr Milliseconds version_limit{60'000};

// ---- mpi-start: asks the agent of this node, which asks the controller, which asks the agent of
// the other node, and ends as the remote command ended

int fail_start(const std::string& message) {
  std::fprintf(stderr, "muster agent mpi-start: %s\n", message.c_str());
  return no_connection;
}

int await_end(int fd) {
  FrameReader reader;
  std::byte buffer[4096];
  for (ssize_t got = 0; (got = ::read(fd, buffer, sizeof buffer)) > 0;) {
    reader.feed(std::span(buffer, static_cast<std::size_t>(got)));
    auto frame = reader.next();
    if (!frame) return fail_start(frame.error().message);
    if (!*frame) continue;
    auto received = decode<ToAgent>(std::move(**frame));
    if (!received) return fail_start(received.error().message);
    const auto* ended = std::get_if<RemoteStartEnded>(&received->message);
    if (ended == nullptr) continue;
    if (!ended->error.empty()) fail_start(ended->error);
    return code_of(ended->status);
  }
  return fail_start("the agent of this node is gone");
}

}  // namespace

int agent_mpi_start(const std::vector<std::string>& words) {
  // rsh-style options come first; those with a value that mpirun may pass on are skipped with it.
  std::size_t at = 0;
  while (at < words.size() && words[at].starts_with("-")) {
    const bool has_value = words[at] == "-l" || words[at] == "-p" || words[at] == "-o";
    at += has_value ? 2 : 1;
  }
  const auto own = own_attempt();
  if (!own) return fail_start(own.error().message);
  const std::string host = at < words.size() ? words[at] : "";
  const std::string command = joined(std::span(words).subspan(std::min(at + 1, words.size())), " ");
  if (host.empty() || command.empty()) return fail_start("HOST and a command are needed");
  ::signal(SIGPIPE, SIG_IGN);
  const auto stream = ask_for_start(*own, host, command);
  return stream ? await_end(stream->get()) : fail_start(stream.error().message);
}

// ---- mpi-run: mpirun, whichever the node has

int agent_mpi_run(const std::vector<std::string>& words) {
  if (words.empty()) return fail_start("mpi-run needs mpirun's words");
  const auto version = run_within({words.front(), "--version"}, version_limit);
  const bool is_hydra = version && (mentions(*version, "HYDRA") || mentions(*version, "Intel"));
  std::vector<std::string> argv = is_hydra ? hydra_command(words) : words;
  for (const char* prefix : {"HYDRA_BOOTSTRAP", "I_MPI_HYDRA_BOOTSTRAP"}) {
    if (is_hydra) ::setenv(prefix, "ssh", 1);
    if (is_hydra) ::setenv((std::string(prefix) + "_EXEC").c_str(), "ssh", 1);
  }
  // The other nodes may not know its name.
  const char* address = std::getenv("MASTER_ADDR");
  if (is_hydra && address != nullptr) {
    argv.insert(argv.begin() + 1, {"-localhost", address});
  }
  ::execvp(argv.front().c_str(), exec_words(argv).data());
  std::perror(argv.front().c_str());
  return not_startable;
}

// ---- mpi-rank: output goes to the rank's pipe, so that it is kept as for any other rank; how it
// ended goes to the attempt's exit log

namespace {

// How exactly the end of a rank is known; each look costs a core some microseconds.
constexpr timespec end_look_interval{0, 100'000'000};

int fail_rank(const std::string& message) {
  std::fprintf(stderr, "muster agent mpi-rank: %s\n", message.c_str());
  return not_startable;
}

bool is_of_mpi(const std::string& name) {
  constexpr std::string_view prefixes[] = {"OMPI_", "PMIX_",     "PMI_",  "ORTE_", "OPAL_",
                                           "PRTE_", "MPI_LOCAL", "HYDI_", "MPIR_", "I_MPI_"};
  return std::ranges::any_of(prefixes, [&](auto prefix) { return name.starts_with(prefix); });
}

void add_image_variables(Environment& environment) {
  Environment whole = own_environment();
  std::string& modules = whole["PYTHONPATH"];
  for (auto& [name, value] : environment) {
    const bool is_behind = name == "PYTHONPATH" && !modules.empty();
    const bool is_before = name == "PATH" && value.ends_with(':');
    if (!is_before) whole[name] = is_behind ? modules + ":" + value : value;
  }
  environment = std::move(whole);
}

// What mpirun says about MPI wins over what is set for every rank.
void merge_mpi_variables(Environment& environment) {
  for (const auto& [name, value] : own_environment()) {
    if (is_of_mpi(name)) environment[name] = value;
  }
}

[[noreturn]] void become_rank(MpiRankFile& rank, pid_t wrapper, RankId id) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != wrapper) ::_exit(not_startable);
  append_exit_log(rank.exit_log_path, RankStart{id, ::getpid()});
  reset_signals();
  std::vector<std::string> variables = entries_of(rank.environment);
  const auto become = [&variables](std::vector<std::string>& words) {
    ::execvpe(words[0].c_str(), exec_words(words).data(), exec_words(variables).data());
  };
  become(rank.argv);
  if (rank.in_image && errno == ENOENT) {  // an image has sh, if anything
    rank.argv.front() = "sh";
    become(rank.argv);
  }
  std::perror(rank.argv[0].c_str());
  ::_exit(not_startable);
}

Status redirect(const MpiRankFile& rank) {
  const Fd output(::open(rank.output_path.c_str(), O_WRONLY | O_CLOEXEC));
  if (!output) return Error{"could not open " + rank.output_path};
  if (::chdir(rank.directory.c_str()) != 0) return Error{"could not enter " + rank.directory};
  ::dup2(output.get(), 1);
  ::dup2(output.get(), 2);
  return Done{};
}

struct End {
  int wait_status = 0;
  RawTime earliest{0};
};

// SIGCHLD is blocked: it ends the pause.
End wait_for(pid_t child, const sigset_t& child_ended) {
  End end{0, raw_time()};
  while (true) {
    const RawTime now = raw_time();
    const pid_t found = ::waitpid(child, &end.wait_status, WNOHANG);
    if (found == child || (found < 0 && errno != EINTR)) return end;
    end.earliest = now;
    ::sigtimedwait(&child_ended, nullptr, &end_look_interval);
  }
}

// The wrapper ends like the rank: mpirun reports what it sees.
int end_like(int wait_status) {
  const ExitStatus status = exit_status_of(wait_status);
  if (status.signal == 0) return status.code;
  const rlimit no_core{0, 0};
  ::setrlimit(RLIMIT_CORE, &no_core);
  reset_signals();
  ::raise(status.signal);
  return code_of(status);
}

}  // namespace

int agent_mpi_rank() {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  const char* number = std::getenv("OMPI_COMM_WORLD_RANK");
  if (number == nullptr) number = std::getenv("PMI_RANK");
  const char* directory = std::getenv(attempt_directory_name);
  if (number == nullptr || directory == nullptr) return fail_rank("only mpirun can use this");
  const RankId id{std::atoll(number)};
  auto rank = read_mpi_rank_file(mpi_rank_file_path(directory, id));
  if (!rank) return fail_rank("rank " + std::string(number) + " does not belong on this node");
  if (rank->in_image) add_image_variables(rank->environment);
  merge_mpi_variables(rank->environment);
  if (Status redirected = redirect(*rank); !redirected)
    return fail_rank(redirected.error().message);
  // mpirun signals the whole group: the rank has got it too and decides when both end.
  for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2}) {
    ::signal(signal, SIG_IGN);
  }
  sigset_t child_ended;
  ::sigemptyset(&child_ended);
  ::sigaddset(&child_ended, SIGCHLD);
  ::sigprocmask(SIG_BLOCK, &child_ended, nullptr);
  const pid_t wrapper = ::getpid();
  const pid_t child = ::fork();
  if (child < 0) return fail_rank("could not start a process");
  if (child == 0) become_rank(*rank, wrapper, id);
  const End end = wait_for(child, child_ended);
  RankExit exit{id, exit_status_of(end.wait_status), raw_time(), end.earliest};
  exit.boot = read_boot_id();
  append_exit_log(rank->exit_log_path, exit);
  return end_like(end.wait_status);
}

}  // namespace muster
