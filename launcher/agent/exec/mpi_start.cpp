// `muster agent mpi-start`: mpirun's remote shell. Asks the agent of this node, which asks the
// controller, which asks the agent of the other node, and ends as the remote command ended.
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>

#include "launcher/agent/keeper/layout.h"
#include "launcher/agent/node/run_directory.h"
#include "launcher/wire/message_codec.h"

namespace muster {

namespace {

// What ssh itself returns when it cannot reach the host: mpirun knows it.
constexpr int no_connection = 255;

struct RemoteWords {
  std::string host;
  std::string command;
};

// rsh-style options come first; those with a value that mpirun may pass on are skipped with it.
RemoteWords split_words(const std::vector<std::string>& words) {
  std::size_t at = 0;
  while (at < words.size() && words[at].starts_with("-")) {
    const bool has_value = words[at] == "-l" || words[at] == "-p" || words[at] == "-o";
    at += has_value ? 2 : 1;
  }
  RemoteWords remote;
  if (at < words.size()) remote.host = words[at++];
  for (; at < words.size(); ++at) remote.command += (remote.command.empty() ? "" : " ") + words[at];
  return remote;
}

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
    auto received = decode_to_agent(std::move(**frame));
    if (!received) return fail_start(received.error().message);
    const auto* ended = std::get_if<RemoteStartEnded>(&received->message);
    if (ended == nullptr) continue;
    if (!ended->error.empty()) fail_start(ended->error);
    return ended->status.signal != 0 ? 128 + ended->status.signal : ended->status.code;
  }
  return fail_start("the agent of this node is gone");
}

}  // namespace

int agent_mpi_start(const std::vector<std::string>& words) {
  const RemoteWords remote = split_words(words);
  const char* socket = std::getenv(socket_name);
  const char* token = std::getenv(token_name);
  if (socket == nullptr || token == nullptr) {
    return fail_start("only a job of muster can use this: MUSTER_AGENT_SOCKET is not set");
  }
  if (remote.host.empty() || remote.command.empty())
    return fail_start("HOST and a command are needed");
  const std::string mark = token;
  const std::size_t attempt_dot = mark.rfind('.');
  const std::size_t job_dot =
      attempt_dot == std::string::npos ? attempt_dot : mark.rfind('.', attempt_dot - 1);
  if (job_dot == std::string::npos) return fail_start("MUSTER_TOKEN is not one of muster's");
  const auto stream = connect_to_agent(socket);
  if (!stream) return fail_start(stream.error().message);
  RemoteStartAsked asked;
  asked.ticket = std::to_string(::getpid());
  asked.job.value = mark.substr(job_dot + 1, attempt_dot - job_dot - 1);
  asked.attempt.value = std::atoll(mark.c_str() + attempt_dot + 1);
  asked.host = remote.host;
  asked.command = remote.command;
  ::signal(SIGPIPE, SIG_IGN);
  if (!write_all(stream->get(), encode(FromAgent{asked})))
    return fail_start("the agent disconnected");
  return await_end(stream->get());
}

}  // namespace muster
