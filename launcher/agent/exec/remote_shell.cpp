// The programs `ssh` and `pdsh` of a job, pkill, and what mpirun calls: `muster agent mpi-start` in
// place of ssh, and `muster agent mpi-rank` for each rank. Processes of their own, which may block.
#include "launcher/agent/exec/remote_shell.h"

#include <fcntl.h>
#include <poll.h>
#include <regex.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <span>
#include <string_view>
#include <utility>

#include "health/checks/host/facts.h"
#include "launcher/agent/attempt/exit_log.h"
#include "launcher/agent/attempt/mpi_launch.h"
#include "launcher/agent/keeper/layout.h"
#include "launcher/agent/node/process_scan.h"
#include "launcher/agent/node/run_directory.h"
#include "launcher/agent/node/spawn.h"
#include "launcher/os/child.h"
#include "launcher/os/read_file.h"
#include "launcher/wire/message_codec.h"
#include "scheduler/text/text.h"

namespace muster {

namespace {

// Which attempt this process belongs to, and where its agent listens.
struct OwnAttempt {
  std::string socket;
  JobId job;
  AttemptId attempt;
};

Result<OwnAttempt> own_attempt() {
  const char* socket = std::getenv(socket_name);
  const char* token = std::getenv(token_name);
  if (socket == nullptr || token == nullptr) {
    return Error{"only a job of muster can use this: MUSTER_AGENT_SOCKET is not set"};
  }
  const std::string mark = token;
  const std::size_t attempt_dot = mark.rfind('.');
  const std::size_t job_dot =
      attempt_dot == std::string::npos ? attempt_dot : mark.rfind('.', attempt_dot - 1);
  if (job_dot == std::string::npos) return Error{"MUSTER_TOKEN is not one of muster's"};
  OwnAttempt own{socket, {}, {}};
  own.job.value = mark.substr(job_dot + 1, attempt_dot - job_dot - 1);
  own.attempt.value = std::atoll(mark.c_str() + attempt_dot + 1);
  return own;
}

// Connected to the agent, which is asked to have this command run there.
Result<Fd> ask_for_start(const OwnAttempt& own, const std::string& host,
                         const std::string& command) {
  auto stream = connect_to_agent(own.socket);
  if (!stream) return stream;
  const RemoteStartAsked asked{std::to_string(::getpid()), own.job, own.attempt, host, command};
  if (!write_all(stream->get(), encode(FromAgent{asked}))) return Error{"the agent disconnected"};
  return stream;
}

// As shells have it.
int code_of(const ExitStatus& status) {
  return status.signal != 0 ? 128 + status.signal : status.code;
}

// What ssh itself returns when it cannot reach the host: launchers know it.
constexpr int no_connection = 255;

// A longer line is passed on in pieces.
constexpr std::size_t remote_line_limit_bytes = 64u << 10;
constexpr int output_lost = 128 + SIGPIPE;

void print(const std::string& text) {
  if (!write_all(STDOUT_FILENO, text)) ::_exit(output_lost);
}

// One host's command, while it runs.
struct RemoteRun {
  std::string program;  // this one
  std::string host{};   // empty: it is not told
  std::string label{};
  Fd stream{};
  FrameReader reader{};
  std::string line{};
  int code = 0;

  void write(std::string_view bytes);
  void end(int with, const std::string& error);
  void read();
};

void RemoteRun::write(std::string_view bytes) {
  if (label.empty()) return print(std::string(bytes));
  std::string whole;
  for (const char byte : bytes) {
    line += byte;
    if (byte != '\n' && line.size() < remote_line_limit_bytes) continue;
    whole += label + line + (byte == '\n' ? "" : "\n");
    line.clear();
  }
  print(whole);
}

void RemoteRun::end(int with, const std::string& error) {
  if (!line.empty()) print(label + std::exchange(line, "") + "\n");
  code = with;
  stream.reset();
  const std::string why = error.empty() ? "exited with exit code " + std::to_string(with) : error;
  if (!error.empty() || (with != 0 && !label.empty())) {
    const std::string where = host.empty() ? "" : host + ": ";
    std::fprintf(stderr, "%s: %s%s\n", program.c_str(), where.c_str(), why.c_str());
  }
}

void RemoteRun::read() {
  std::byte buffer[65536];
  const ssize_t got = ::read(stream.get(), buffer, sizeof buffer);
  if (got < 0 && errno == EINTR) return;
  if (got <= 0) return end(no_connection, "the agent of this node is gone");
  reader.feed(std::span(buffer, static_cast<std::size_t>(got)));
  while (stream) {
    auto frame = reader.next();
    if (!frame) return end(no_connection, frame.error().message);
    if (!*frame) return;
    const auto received = decode<ToAgent>(std::move(**frame));
    if (!received) return end(no_connection, received.error().message);
    if (std::holds_alternative<RemoteOutput>(received->message)) write(received->payload);
    const auto* ended = std::get_if<RemoteStartEnded>(&received->message);
    if (ended != nullptr) end(code_of(ended->status), ended->error);
  }
}

void read_all(std::vector<RemoteRun>& runs) {
  while (true) {
    std::vector<pollfd> waits;
    std::vector<RemoteRun*> waiting;
    for (RemoteRun& run : runs) {
      if (!run.stream) continue;
      waits.push_back({run.stream.get(), POLLIN, 0});
      waiting.push_back(&run);
    }
    if (waits.empty()) return;
    if (::poll(waits.data(), waits.size(), -1) < 0) continue;
    for (std::size_t at = 0; at < waits.size(); ++at) {
      if (waits[at].revents != 0) waiting[at]->read();
    }
  }
}

void survive_signals() {
  for (const int signal : {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGALRM}) {
    ::signal(signal, [](int number) { ::_exit(128 + number); });
  }
  ::signal(SIGPIPE, SIG_IGN);
}

int fail(const std::string& name, const std::string& message) {
  std::fprintf(stderr, "%s: %s\n", name.c_str(), message.c_str());
  return no_connection;
}

using Words = std::vector<std::string>;

// One letter each; those with a value have it in the same word or in the next.
struct OptionLetters {
  std::string_view switches;
  std::string_view settings;
};
constexpr OptionLetters ssh_letters{"46AaCfGgKkMNnqsTtVvXxYy", "BbcDEeFIiJLlmOopQRSWw"};
constexpr OptionLetters pdsh_letters{"SNqbdi", "wfRltux"};

// Takes the options at `at` and tells each, with its value; stands at the first other word then.
template <class Tell>
Status take_options(const Words& words, std::size_t& at, const OptionLetters& known,
                    const Tell& tell) {
  for (; at < words.size() && words[at].size() > 1 && words[at][0] == '-'; ++at) {
    const std::string& word = words[at];
    if (word == "--") {
      ++at;
      break;
    }
    for (std::size_t letter = 1; letter < word.size(); ++letter) {
      const char option = word[letter];
      if (mentions(known.switches, {&option, 1})) {
        tell(option, "");
        continue;
      }
      if (!mentions(known.settings, {&option, 1})) {
        return Error{"the option -" + std::string(1, option) + " is unsupported here"};
      }
      const bool is_inside = letter + 1 < word.size();
      if (!is_inside && at + 1 >= words.size()) {
        return Error{"the option -" + std::string(1, option) + " needs a value"};
      }
      tell(option, is_inside ? word.substr(letter + 1) : words[++at]);
      break;
    }
  }
  return Done{};
}

}  // namespace

Result<RemoteCall> read_ssh_words(const Words& words) {
  const auto nothing = [](char, const std::string&) {};
  std::size_t at = 0;
  if (Status taken = take_options(words, at, ssh_letters, nothing); !taken) return taken.error();
  if (at == words.size()) return Error{"HOST and a command are needed"};
  RemoteCall call;
  call.returns_codes = true;
  const std::string& place = words[at++];
  call.hosts.push_back(place.substr(place.rfind('@') + 1));
  if (Status taken = take_options(words, at, ssh_letters, nothing); !taken) return taken.error();
  call.command = joined(std::span(words).subspan(at), " ");
  if (call.hosts.front().empty() || call.command.empty()) {
    return Error{"HOST and a command are needed"};
  }
  return call;
}

Result<RemoteCall> read_pdsh_words(const Words& words) {
  RemoteCall call;
  call.is_pattern = call.is_labelled = true;
  bool leaves_out = false;
  const auto take = [&](char option, const std::string& value) {
    if (option == 'S') call.returns_codes = true;
    if (option == 'N') call.is_labelled = false;
    leaves_out |= option == 'x';
    if (option != 'w') return;
    for (const std::string_view host : words_in(value, ",")) call.hosts.emplace_back(host);
  };
  std::size_t at = 0;
  Status taken = take_options(words, at, pdsh_letters, take);
  if (!taken) return taken.error();
  if (leaves_out) return Error{"the option -x is unsupported here"};
  call.command = joined(std::span(words).subspan(at), " ");
  if (call.hosts.empty() || call.command.empty()) return Error{"-w HOSTS and a command are needed"};
  return call;
}

std::string command_for(const RemoteCall& call, std::size_t place, const std::string& user) {
  if (!call.is_pattern) return call.command;
  const std::map<char, std::string> meant = {
      {'h', call.hosts[place]}, {'n', std::to_string(place)}, {'u', user}, {'%', "%"}};
  std::string text;
  for (std::size_t at = 0; at < call.command.size(); ++at) {
    const bool is_mark = call.command[at] == '%';
    const auto found = is_mark ? meant.find(call.command[at + 1]) : meant.end();
    text += found == meant.end() ? std::string(1, call.command[at]) : found->second;
    if (found != meant.end()) ++at;
  }
  return text;
}

std::string with_own_pkill(const std::string& command) {
  constexpr std::string_view other = "pkill -f ";
  if (!command.starts_with(other)) return command;
  return "muster agent pkill " + command.substr(other.size());
}

std::string remote_shell_called(const std::string& program) {
  const std::string name = program.substr(program.rfind('/') + 1);
  return name == "ssh" || name == "pdsh" ? name : "";
}

int remote_shell(const std::string& name, const std::vector<std::string>& words) {
  survive_signals();
  const auto call = name == "ssh" ? read_ssh_words(words) : read_pdsh_words(words);
  if (!call) return fail(name, call.error().message);
  const auto own = own_attempt();
  if (!own) return fail(name, own.error().message);
  rlimit limit{};  // each host has a connection of its own
  ::getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  if (limit.rlim_max > 0) ::setrlimit(RLIMIT_NOFILE, &limit);
  const char* const user = std::getenv("USER");
  std::vector<RemoteRun> runs;
  for (const std::string& host : call->hosts) {
    const std::string command = command_for(*call, runs.size(), user != nullptr ? user : "root");
    RemoteRun& run = runs.emplace_back(RemoteRun{name, host});
    if (call->is_labelled) run.label = host + ": ";
    auto stream = ask_for_start(*own, host, with_own_pkill(command));
    if (!stream) run.end(no_connection, stream.error().message);
    if (stream) run.stream = std::move(*stream);
  }
  read_all(runs);
  if (!call->returns_codes) return 0;
  return std::ranges::max_element(runs, {}, &RemoteRun::code)->code;
}

int agent_pkill(const std::vector<std::string>& words) {
  const auto own = own_attempt();
  if (!own || words.size() != 1) return fail("pkill", own ? "needs PATTERN" : own.error().message);
  const std::string token = std::getenv(token_name);
  regex_t pattern{};
  if (::regcomp(&pattern, words.front().c_str(), REG_EXTENDED | REG_NOSUB) != 0) {
    return fail("pkill", "invalid pattern: " + words.front());
  }
  int met = 0;
  for (const ProcessInfo& process : scan_processes()) {
    // Nor the shell that runs this: its command line holds the pattern too.
    if (process.pid == ::getpid() || process.pid == ::getppid() || process.is_dead()) continue;
    const std::string block = read_process_environment(process.pid);
    if (environment_entry(block, token_name) != token ||
        environment_entry(block, socket_name) != own->socket) {
      continue;
    }
    std::string line = text_of_file("/proc/" + std::to_string(process.pid) + "/cmdline");
    std::ranges::replace(line, '\0', ' ');
    const bool is_met = ::regexec(&pattern, line.c_str(), 0, nullptr, 0) == 0;
    if (is_met && signal_process(process, SIGTERM)) ++met;
  }
  return met > 0 ? 0 : 1;
}

namespace {

constexpr int not_startable = 127;
constexpr Milliseconds version_limit{60'000};

// ---- mpi-start: asks the agent of this node, which asks the controller, which asks the agent of
// the other node, and ends as the remote command ended

int fail_start(const std::string& message) {
  return fail("muster agent mpi-start", message);
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
  auto stream = ask_for_start(*own, host, command);
  if (!stream) return fail_start(stream.error().message);
  RemoteRun run{"muster agent mpi-start"};
  run.stream = std::move(*stream);
  while (run.stream) run.read();
  return run.code;
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
