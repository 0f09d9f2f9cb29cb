// A helper process and this end of its socket. Born with the socket as descriptor 3, nothing else
// of ours, no signal blocked or ignored, in a session of its own; it asks the kernel itself to be
// killed with its owner. Nothing here blocks.
#pragma once

#include <sys/types.h>

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "scheduler/model/result.h"

namespace muster {

// waitpid.
using WaitForProcess = std::function<pid_t(pid_t, int*, int)>;

class HelperProcess {
 public:
  static Result<HelperProcess> start(const std::vector<std::string>& argv);
  HelperProcess(HelperProcess&& other) noexcept;
  HelperProcess& operator=(HelperProcess&&) = delete;
  ~HelperProcess();  // of the socket alone

  pid_t pid() const { return pid_; }
  int socket() const { return socket_; }

  // To be sent as soon as the socket takes it.
  void send(std::string_view bytes) { unsent_ += bytes; }
  bool has_unsent() const { return !unsent_.empty(); }
  void send_on();

  enum class Heard { nothing, something, end };
  // Appends what is there, some at a time.
  Heard hear(std::string& bytes) const;

 private:
  HelperProcess(pid_t pid, int socket) : pid_(pid), socket_(socket) {}

  pid_t pid_;
  int socket_;
  std::string unsent_;
};

// How a child ended ("died of signal 11"); nothing: it is still there. One that somebody else
// reaped "is gone".
std::optional<std::string> reaped(const WaitForProcess& wait, pid_t pid);
// Of a child that was not reaped yet: its number belongs to nobody else.
void kill_process(pid_t pid);

}  // namespace muster
