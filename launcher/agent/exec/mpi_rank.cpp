// `muster agent mpi-rank`: between mpirun and a rank. Output goes to the rank's pipe, so that it
// is kept as for any other rank; how it ended goes to the attempt's exit log.
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>

#include "health/checks/host/facts.h"
#include "launcher/agent/attempt/exit_log.h"
#include "launcher/agent/attempt/mpi_launch.h"
#include "launcher/agent/node/run_directory.h"
#include "launcher/agent/node/spawn.h"
#include "launcher/os/child.h"

extern char** environ;

namespace muster {

namespace {

constexpr int not_startable = 127;

// How exactly the end of a rank is known; each look costs a core some microseconds.
constexpr timespec end_look_interval{0, 100'000'000};

int fail_rank(const std::string& message) {
  std::fprintf(stderr, "muster agent mpi-rank: %s\n", message.c_str());
  return not_startable;
}

bool is_of_mpi(const std::string& entry) {
  for (const char* prefix : {"OMPI_", "PMIX_", "PMI_", "ORTE_", "OPAL_", "PRTE_"}) {
    if (entry.starts_with(prefix)) return true;
  }
  return false;
}

// What mpirun says about MPI wins over what is set for every rank.
void merge_mpi_variables(Environment& environment) {
  for (char** at = environ; *at != nullptr; ++at) {
    const std::string entry = *at;
    const std::size_t equals = entry.find('=');
    if (equals == std::string::npos || !is_of_mpi(entry)) continue;
    environment[entry.substr(0, equals)] = entry.substr(equals + 1);
  }
}

[[noreturn]] void become_rank(const MpiRankFile& rank, pid_t wrapper, RankId id) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != wrapper) ::_exit(not_startable);
  append_exit_log(rank.exit_log_path, RankStart{id, ::getpid()});
  reset_signals();
  std::vector<std::string> entries;
  for (const auto& [name, value] : rank.environment) entries.push_back(name + "=" + value);
  std::vector<char*> envp;
  for (std::string& entry : entries) envp.push_back(entry.data());
  envp.push_back(nullptr);
  std::vector<char*> argv;
  for (const std::string& word : rank.argv) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  ::execve(argv[0], argv.data(), envp.data());
  std::perror(argv[0]);
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
End wait_for(pid_t child) {
  sigset_t child_ended;
  ::sigemptyset(&child_ended);
  ::sigaddset(&child_ended, SIGCHLD);
  End end{0, raw_time()};
  while (true) {
    const RawTime now = raw_time();
    const pid_t found = ::waitpid(child, &end.wait_status, WNOHANG);
    if (found == child || (found < 0 && errno != EINTR)) return end;
    end.earliest = now;
    ::sigtimedwait(&child_ended, nullptr, &end_look_interval);
  }
}

void block_child_signal() {
  sigset_t child_ended;
  ::sigemptyset(&child_ended);
  ::sigaddset(&child_ended, SIGCHLD);
  ::sigprocmask(SIG_BLOCK, &child_ended, nullptr);
}

// The wrapper ends like the rank: mpirun reports what it sees.
int end_like(int wait_status) {
  const ExitStatus status = exit_status_of(wait_status);
  if (status.signal == 0) return status.code;
  const rlimit no_core{0, 0};
  ::setrlimit(RLIMIT_CORE, &no_core);
  reset_signals();
  ::raise(status.signal);
  return 128 + status.signal;
}

}  // namespace

int agent_mpi_rank() {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  const char* number = std::getenv("OMPI_COMM_WORLD_RANK");
  const char* directory = std::getenv(attempt_directory_name);
  if (number == nullptr || directory == nullptr) return fail_rank("only mpirun can use this");
  const RankId id{std::atoll(number)};
  auto rank = read_mpi_rank_file(mpi_rank_file_path(directory, id));
  if (!rank) return fail_rank("rank " + std::string(number) + " does not belong on this node");
  merge_mpi_variables(rank->environment);
  if (Status redirected = redirect(*rank); !redirected)
    return fail_rank(redirected.error().message);
  // mpirun signals the whole group: the rank has got it too and decides when both end.
  for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2}) {
    ::signal(signal, SIG_IGN);
  }
  block_child_signal();
  const pid_t wrapper = ::getpid();
  const pid_t child = ::fork();
  if (child < 0) return fail_rank("could not start a process");
  if (child == 0) become_rank(*rank, wrapper, id);
  const End end = wait_for(child);
  RankExit exit{id, exit_status_of(end.wait_status), raw_time(), end.earliest};
  exit.boot = read_boot_id();
  append_exit_log(rank->exit_log_path, exit);
  return end_like(end.wait_status);
}

}  // namespace muster
