// The programs `ssh` and `pdsh` of a job, and pkill: processes of their own, which may block.
#include "launcher/agent/exec/remote_shell.h"

#include <poll.h>
#include <regex.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>

#include "launcher/agent/exec/remote_words.h"
#include "launcher/agent/keeper/layout.h"
#include "launcher/agent/node/process_scan.h"
#include "launcher/os/fd.h"
#include "launcher/os/read_file.h"
#include "launcher/wire/message_codec.h"

namespace muster {

namespace {

// A longer line is passed on in pieces.
constexpr std::size_t line_limit_bytes = 64u << 10;
constexpr int output_lost = 128 + SIGPIPE;

void print(const std::string& text) {
  if (!write_all(STDOUT_FILENO, text)) ::_exit(output_lost);
}

// One host's command, while it runs.
struct RemoteRun {
  std::string host;
  std::string label{};
  Fd stream{};
  FrameReader reader{};
  std::string line{};
  int code = 0;

  void write(std::string_view bytes);
  void finish_line();
  void end(int with, const std::string& error, const std::string& name);
  void take(const RemoteStartEnded& ended, const std::string& name);
  void read(const std::string& name);
};

void RemoteRun::write(std::string_view bytes) {
  if (label.empty()) return print(std::string(bytes));
  std::string whole;
  for (const char byte : bytes) {
    line += byte;
    if (byte != '\n' && line.size() < line_limit_bytes) continue;
    whole += label + line + (byte == '\n' ? "" : "\n");
    line.clear();
  }
  print(whole);
}

void RemoteRun::finish_line() {
  if (!line.empty()) print(label + line + "\n");
  line.clear();
}

void RemoteRun::end(int with, const std::string& error, const std::string& name) {
  finish_line();
  code = with;
  stream.reset();
  const std::string why = error.empty() ? "exited with exit code " + std::to_string(with) : error;
  if (!error.empty() || (with != 0 && !label.empty())) {
    std::fprintf(stderr, "%s: %s: %s\n", name.c_str(), host.c_str(), why.c_str());
  }
}

void RemoteRun::take(const RemoteStartEnded& ended, const std::string& name) {
  const ExitStatus& status = ended.status;
  end(status.signal != 0 ? 128 + status.signal : status.code, ended.error, name);
}

void RemoteRun::read(const std::string& name) {
  std::byte buffer[65536];
  const ssize_t got = ::read(stream.get(), buffer, sizeof buffer);
  if (got < 0 && errno == EINTR) return;
  if (got <= 0) return end(no_connection, "the agent of this node is gone", name);
  reader.feed(std::span(buffer, static_cast<std::size_t>(got)));
  while (stream) {
    auto frame = reader.next();
    if (!frame) return end(no_connection, frame.error().message, name);
    if (!*frame) return;
    const auto received = decode<ToAgent>(std::move(**frame));
    if (!received) return end(no_connection, received.error().message, name);
    if (std::holds_alternative<RemoteOutput>(received->message)) write(received->payload);
    const auto* ended = std::get_if<RemoteStartEnded>(&received->message);
    if (ended != nullptr) take(*ended, name);
  }
}

void begin(RemoteRun& run, const OwnAttempt& own, const std::string& command,
           const std::string& name) {
  auto stream = connect_to_agent(own.socket);
  if (!stream) return run.end(no_connection, stream.error().message, name);
  run.stream = std::move(*stream);
  const RemoteStartAsked asked{std::to_string(::getpid()), own.job, own.attempt, run.host, command};
  if (!write_all(run.stream.get(), encode(FromAgent{asked}))) {
    run.end(no_connection, "the agent disconnected", name);
  }
}

void read_all(std::vector<RemoteRun>& runs, const std::string& name) {
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
      if (waits[at].revents != 0) waiting[at]->read(name);
    }
  }
}

// Each host has a connection of its own.
void allow_descriptors() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
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

std::string user_name() {
  const char* name = std::getenv("USER");
  return name != nullptr ? name : "root";
}

}  // namespace

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
  allow_descriptors();
  std::vector<RemoteRun> runs(call->hosts.size());
  for (std::size_t place = 0; place < runs.size(); ++place) {
    runs[place].host = call->hosts[place];
    if (call->is_labelled) runs[place].label = runs[place].host + ": ";
    begin(runs[place], *own, with_own_pkill(command_for(*call, place, user_name())), name);
  }
  read_all(runs, name);
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

}  // namespace muster
