// `muster agent attach`: the far end of a transport. Finds or starts the agent, then copies bytes
// between the standard streams and its socket until either side closes.
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <memory>

#include "launcher/agent/node/run_directory.h"
#include "launcher/os/fd.h"

namespace muster {

namespace {

constexpr std::size_t copy_buffer_bytes = 256u << 10;
// One that is leaving may close the door between two tries.
constexpr int starts_limit = 3;

int fail(const std::string& message) {
  std::fprintf(stderr, "muster agent attach: %s\n", message.c_str());
  return 1;
}

// Bytes on their way from one descriptor to another. Their buffer is not filled beforehand: mostly
// a page of it is ever needed.
class Pump {
 public:
  Pump(int from, int to)
      : from_(from), to_(to), buffer_(std::make_unique_for_overwrite<char[]>(copy_buffer_bytes)) {}

  bool is_over() const { return is_over_; }
  pollfd read_interest() const { return {has_bytes() || is_over_ ? -1 : from_, POLLIN, 0}; }
  pollfd write_interest() const { return {has_bytes() ? to_ : -1, POLLOUT, 0}; }

  void move(bool readable, bool writable) {
    if (!has_bytes() && readable) fill();
    if (has_bytes() && (writable || readable)) drain();
  }

 private:
  bool has_bytes() const { return start_ < end_; }

  void fill() {
    const ssize_t got = ::read(from_, buffer_.get(), copy_buffer_bytes);
    if (got > 0) {
      start_ = 0;
      end_ = static_cast<std::size_t>(got);
    } else if (got == 0 || (errno != EAGAIN && errno != EINTR)) {
      is_over_ = true;
    }
  }

  void drain() {
    const ssize_t put = ::write(to_, buffer_.get() + start_, end_ - start_);
    if (put > 0) {
      start_ += static_cast<std::size_t>(put);
    } else if (errno != EAGAIN && errno != EINTR) {
      is_over_ = true;
    }
  }

  int from_;
  int to_;
  std::unique_ptr<char[]> buffer_;
  std::size_t start_ = 0;
  std::size_t end_ = 0;
  bool is_over_ = false;
};

int copy_both_ways(int socket) {
  ::signal(SIGPIPE, SIG_IGN);
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, socket}) {
    ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) | O_NONBLOCK);
  }
  const int larger = 1 << 20;
  ::setsockopt(socket, SOL_SOCKET, SO_SNDBUF, &larger, sizeof larger);
  Pump to_agent(STDIN_FILENO, socket);
  Pump from_agent(socket, STDOUT_FILENO);
  while (!to_agent.is_over() && !from_agent.is_over()) {
    // The socket twice, once for each direction; the last notices that nobody reads stdout any
    // more.
    pollfd all[] = {to_agent.read_interest(),
                    to_agent.write_interest(),
                    from_agent.read_interest(),
                    from_agent.write_interest(),
                    {STDOUT_FILENO, 0, 0}};
    if (::poll(all, std::size(all), -1) < 0 && errno != EINTR) break;
    if ((all[4].revents & (POLLERR | POLLNVAL)) != 0) break;
    to_agent.move(all[0].revents != 0, all[1].revents != 0);
    from_agent.move(all[2].revents != 0, all[3].revents != 0);
  }
  return 0;
}

Result<Fd> reach_agent(const AgentOptions& options) {
  const auto run = open_run_directory(options.home, options.controller, NodeId{options.node});
  if (!run) return run.error();
  for (int starts = 0; starts < starts_limit; ++starts) {
    if (auto stream = connect_to_agent(run->socket_path())) return stream;
    // The daemon is forked from this process: one start of the program does for both.
    static_cast<void>(agent_serve(options));
  }
  auto stream = connect_to_agent(run->socket_path());
  if (stream) return stream;
  return Error{stream.error().message + "; the agent's log is " + run->path +
               "/agent.log on this node"};
}

}  // namespace

int agent_attach(const AgentOptions& options) {
  constexpr char marker[] = "MUSTER-ATTACHED\n";
  if (::write(STDOUT_FILENO, marker, sizeof marker - 1) != sizeof marker - 1) return 1;
  const auto stream = reach_agent(options);
  if (!stream) return fail(stream.error().message);
  return copy_both_ways(stream->get());
}

}  // namespace muster
