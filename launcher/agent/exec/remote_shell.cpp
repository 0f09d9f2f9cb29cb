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
#include <map>
#include <span>
#include <string_view>
#include <utility>

#include "launcher/agent/keeper/layout.h"
#include "launcher/agent/node/process_scan.h"
#include "launcher/os/read_file.h"
#include "launcher/wire/message_codec.h"
#include "scheduler/text/text.h"

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
  std::string program;  // this one
  std::string host;
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
    if (byte != '\n' && line.size() < line_limit_bytes) continue;
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
    std::fprintf(stderr, "%s: %s: %s\n", program.c_str(), host.c_str(), why.c_str());
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

Result<Fd> ask_for_start(const OwnAttempt& own, const std::string& host,
                         const std::string& command) {
  auto stream = connect_to_agent(own.socket);
  if (!stream) return stream;
  const RemoteStartAsked asked{std::to_string(::getpid()), own.job, own.attempt, host, command};
  if (!write_all(stream->get(), encode(FromAgent{asked}))) return Error{"the agent disconnected"};
  return stream;
}

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
  allow_descriptors();
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

}  // namespace muster
