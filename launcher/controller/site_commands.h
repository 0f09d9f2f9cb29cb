// Commands of the site that run on the controller's host, as children of it. Owned by the
// controller's process, on its thread.
#pragma once

#include <map>
#include <memory>

#include "launcher/controller/remedy_desk.h"
#include "launcher/os/timers.h"

namespace boost::asio {
class io_context;
}

namespace muster {

class SiteCommands {
 public:
  SiteCommands(boost::asio::io_context& io, Timers& timers);
  ~SiteCommands();  // ends those that run

  void run(const std::vector<std::string>& argv, Milliseconds limit,
           std::function<void(const CommandEnded&)> done);

 private:
  struct Running;
  void end(int number, CommandEnded ended);

  boost::asio::io_context& io_;
  Timers& timers_;
  std::map<int, std::unique_ptr<Running>> running_;
  int next_ = 1;
};

}  // namespace muster
