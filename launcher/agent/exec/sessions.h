// Commands that a person runs beside a rank, with three pipes or a terminal, and connections to
// sockets here: own session, killed when the asker, the attempt or the agent goes. Who takes
// nothing is sent nothing beyond its window. Owned by Agent, on its thread.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>

#include <boost/asio/io_context.hpp>
#include <boost/system/error_code.hpp>

#include "launcher/agent/keeper/layout.h"
#include "launcher/agent/keeper/rank_environment.h"
#include "launcher/agent/node/peer.h"
#include "launcher/agent/node/spawn.h"
#include "launcher/os/fd.h"
#include "launcher/wire/agent_request.h"
#include "runtime/protocol/boot_clock.h"

namespace muster {

class ExecSessions {
 public:
  ExecSessions(boost::asio::io_context& io, ControllerLine& line);
  ~ExecSessions();

  // The pid of the started command; ExecEnded tells the asker of a failure.
  using Starter = std::function<Result<pid_t>(const SpawnRequest&)>;
  Result<pid_t> start(const ExecStart& request, const Environment& environment,
                      const std::string& directory, const Starter& starter = {});
  // A connection in place of a command: into `directory`, or to a port of this host.
  Status connect(const ExecStart& request, const std::string& directory);
  void refuse(const std::string& id, const std::string& why);
  void input(const std::string& id, std::string_view bytes);  // none: end of input
  void handle(const ExecInput& given, std::string_view bytes) { input(given.id, bytes); }
  void handle(const ExecControl& control, std::string_view);
  void stop(const std::string& id);
  void end_connections(const AttemptKey& attempt);
  void stop_all();
  bool reaped(pid_t pid, int wait_status);
  void resume_reading();  // the line has room again

 private:
  struct Session;
  struct Stream;
  std::shared_ptr<Session> add(const ExecStart& request);
  bool must_wait(const Session& session) const;
  void connected(const std::shared_ptr<Session>& session, const std::string& name);
  void read_more(const std::shared_ptr<Session>& session, Stream& stream);
  void read_on(const std::shared_ptr<Session>& session);
  void stream_over(const std::shared_ptr<Session>& session, Stream& stream,
                   const boost::system::error_code& error);
  void tell_taken(Session& session, std::size_t bytes);
  void await_silence(const std::shared_ptr<Session>& session);
  void end(const std::shared_ptr<Session>& session);
  void write_input(const std::shared_ptr<Session>& session);
  void finish_if_over(const std::shared_ptr<Session>& session);
  void finish(const std::shared_ptr<Session>& session);

  boost::asio::io_context& io_;
  ControllerLine& line_;
  std::map<std::string, std::shared_ptr<Session>> sessions_;
};

// Sessions of programs that were killed, until all of their processes are gone: a driver takes its
// memory back for seconds, and what is measured or started meanwhile meets that. Waited for no
// longer than ending_limit: a process that hangs in the kernel is not ended by waiting. One thread.

inline constexpr std::chrono::seconds ending_limit{5};

class EndingSessions {
 public:
  explicit EndingSessions(std::chrono::milliseconds limit = ending_limit) : limit_(limit) {}

  void add(pid_t session);
  // Reads /proc while there is something to wait for.
  bool are_gone();
  // Until they are gone, however long that takes: no processes of any attempt.
  std::set<pid_t> all() const;
  // Of those that are waited for no longer, as are_gone() saw them last: "process 4711
  // (python) of what was measured before does not end". Empty: there is none.
  std::string hung() const;

 private:
  std::chrono::milliseconds limit_;
  std::map<pid_t, std::string> alive_;  // one of its processes, by session, at the last look
  std::map<pid_t, BootTime> until_;
  BootTime look_at_{};  // for those that hang
};

// What a session can have at the node's end beside a command with pipes: a terminal, a socket that
// listens there, or an sshd for one connection. What is asked comes from another machine and is
// checked here.

struct TerminalEnds {
  Fd master;
  Fd slave;
};
Result<TerminalEnds> open_terminal(const TerminalShape& shape);

// Tells the programs in it too.
void resize_terminal(int terminal, int rows, int columns);

// A socket that is connected, or about to be, to `name`: a port of 127.0.0.1, or the path of a Unix
// socket of this account in `directory`.
Result<Fd> dial(const std::string& name, const std::string& directory);

// Fills in what the channel stands for: TERM, the login shell, the sshd, whose files are written
// below `directory`, which goes with the attempt.
Status complete(ExecStart& request, Environment& environment, const std::string& directory);

}  // namespace muster
