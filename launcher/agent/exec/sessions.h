// Commands that a person runs beside a rank: own session, three pipes, killed when the asker, the
// attempt or the agent goes. Owned by Agent, on its thread.
#pragma once

#include <sys/types.h>

#include <boost/asio/io_context.hpp>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "launcher/agent/attempt/attempt_layout.h"
#include "launcher/agent/attempt/rank_environment.h"
#include "launcher/agent/node/controller_line.h"

namespace muster {

class ExecSessions {
 public:
  ExecSessions(boost::asio::io_context& io, ControllerLine& line);
  ~ExecSessions();

  // The pid of the started command; ExecEnded tells the asker of a failure.
  Result<pid_t> start(const ExecStart& request, const Environment& environment,
                      const std::string& directory);
  void refuse(const std::string& id, const std::string& why);
  void input(const std::string& id, std::string_view bytes);  // none: end of input
  void stop(const std::string& id);
  void stop_all();
  bool reaped(pid_t pid, int wait_status);
  void resume_reading();  // the line has room again

 private:
  struct Session;
  struct Stream;
  void read_more(const std::shared_ptr<Session>& session, Stream& stream);
  void write_input(const std::shared_ptr<Session>& session);
  void finish_if_over(const std::shared_ptr<Session>& session);
  void finish(const std::shared_ptr<Session>& session);

  boost::asio::io_context& io_;
  ControllerLine& line_;
  std::map<std::string, std::shared_ptr<Session>> sessions_;
};

}  // namespace muster
