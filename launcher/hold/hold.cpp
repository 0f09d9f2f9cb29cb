#include <poll.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "launcher/hold/protocol.h"

namespace muster {

namespace {

constexpr int socket_failed = 3;

bool say(int socket, const std::string& text) {
  return ::send(socket, text.data(), text.size(), MSG_NOSIGNAL) >= 0;
}

int connected(const char* path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (std::strlen(path) >= sizeof address.sun_path) return -1;
  std::memcpy(address.sun_path, path, std::strlen(path));
  const int socket = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  const auto* const name = reinterpret_cast<const sockaddr*>(&address);
  return ::connect(socket, name, sizeof address) == 0 ? socket : -1;
}

struct Request {
  std::string id;
  int files[hold_descriptors] = {-1, -1, -1, -1, -1};
};

// False: the agent is gone, or says what it never does.
bool receive(int socket, Request& request) {
  char text[hold_message_bytes];
  alignas(cmsghdr) char space[CMSG_SPACE(sizeof request.files)];
  iovec place{text, sizeof text};
  msghdr message{nullptr, 0, &place, 1, space, sizeof space, 0};
  const ssize_t got = ::recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
  const cmsghdr* const files = got > 0 ? CMSG_FIRSTHDR(&message) : nullptr;
  if (files == nullptr || files->cmsg_type != SCM_RIGHTS) return false;
  if (files->cmsg_len != CMSG_LEN(sizeof request.files)) return false;
  std::memcpy(request.files, CMSG_DATA(files), sizeof request.files);
  request.id.assign(text, static_cast<std::size_t>(got));
  return true;
}

std::string text_of(int file) {
  struct stat facts {};
  if (::fstat(file, &facts) != 0) return {};
  std::string text(static_cast<std::size_t>(facts.st_size), '\0');
  std::size_t filled = 0;
  while (filled < text.size()) {
    const ssize_t got =
        ::pread(file, text.data() + filled, text.size() - filled, static_cast<off_t>(filled));
    if (got <= 0) return {};
    filled += static_cast<std::size_t>(got);
  }
  return text;
}

void reset_signals() {
  for (int signal = 1; signal < NSIG; ++signal) ::signal(signal, SIG_DFL);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
}

// With what the image has there, in the order of `kind`.
void add(char kind, const char* entry) {
  const char* const equals = std::strchr(entry, '=');
  if (equals == nullptr) return;
  const std::string name(entry, equals);
  const char* const there = ::getenv(name.c_str());
  const bool is_new = there == nullptr || *there == '\0';
  const std::string own = equals + 1;
  std::string both = own;
  if (!is_new) both = kind == hold_last ? there + (":" + own) : own + ":" + there;
  ::setenv(name.c_str(), both.c_str(), 1);
}

// In the child. Returns the stage that failed; errno says why.
const char* become(const Request& request, int socket) {
  ::setsid();
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  std::string text = text_of(request.files[0]);
  const char* directory = "/";
  std::vector<char*> words;
  bool has_terminal = false;
  for (std::size_t at = 0; at < text.size(); at += std::strlen(&text[at]) + 1) {
    char* const entry = &text[at] + 1;
    if (text[at] == hold_variable) ::putenv(entry);
    if (text[at] == hold_last || text[at] == hold_first) add(text[at], entry);
    if (text[at] == hold_directory) directory = entry;
    if (text[at] == hold_argument) words.push_back(entry);
    if (text[at] == hold_terminal) has_terminal = true;
  }
  errno = EINVAL;
  if (words.empty()) return "read what to start";
  words.push_back(nullptr);
  for (int target = 0; target < 3; ++target) {
    if (::dup2(request.files[target + 1], target) < 0) return "pass on the output";
  }
  if (has_terminal && ::ioctl(0, TIOCSCTTY, 0) != 0) return "give the terminal";
  if (::chdir(directory) != 0) return "enter the directory";
  reset_signals();
  if (!say(socket, "begun " + request.id)) ::_exit(127);
  static char running[hold_message_bytes / 2];
  std::snprintf(running, sizeof running, "run '%s'", words[0]);
  ::execvp(words[0], words.data());
  return running;
}

class Holder {
 public:
  explicit Holder(int socket) : socket_(socket) {}

  void start(const Request& request) {
    const pid_t child = ::fork();
    if (child <= 0) {
      const char* const stage = child < 0 ? "start a process" : become(request, socket_);
      const std::string why = std::to_string(errno) + " " + stage;
      const ssize_t told = ::write(request.files[4], why.data(), why.size());
      if (child == 0) ::_exit(told < 0 ? 126 : 127);
    }
    for (const int file : request.files) ::close(file);
    if (child > 0) ids_[child] = request.id;
  }

  // Those that nobody asked for were left to process 1.
  void reap() {
    int status = 0;
    for (pid_t dead = 0; (dead = ::waitpid(-1, &status, WNOHANG)) > 0;) {
      const auto known = ids_.find(dead);
      if (known == ids_.end()) continue;
      say(socket_, "ended " + known->second + " " + std::to_string(status));
      ids_.erase(known);
    }
  }

 private:
  int socket_;
  std::map<pid_t, std::string> ids_;
};

}  // namespace

int hold(const char* socket_path) {
  const int socket = connected(socket_path);
  if (socket < 0 || !say(socket, "here")) return socket_failed;
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  sigset_t wanted;
  ::sigemptyset(&wanted);
  ::sigaddset(&wanted, SIGCHLD);
  ::sigaddset(&wanted, SIGTERM);
  ::sigprocmask(SIG_BLOCK, &wanted, nullptr);
  const int signals = ::signalfd(-1, &wanted, SFD_CLOEXEC);
  Holder holder(socket);
  pollfd events[] = {{socket, POLLIN, 0}, {signals, POLLIN, 0}};
  while (true) {
    if (::poll(events, 2, -1) < 0) continue;
    if (events[1].revents != 0) {
      signalfd_siginfo told{};
      if (::read(signals, &told, sizeof told) > 0) holder.reap();  // SIGTERM alone ends nothing
    }
    if (events[0].revents == 0) continue;
    Request request;
    if (!receive(socket, request)) return 0;
    holder.start(request);
  }
}

}  // namespace muster
