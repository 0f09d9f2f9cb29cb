// Work that may block (a slow file system, a large tree) in a forked child that can be killed, so
// that the agent always answers. The child runs a function and hands back one string. Owned by the
// agent.
#pragma once

#include <boost/asio/io_context.hpp>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>

#include "scheduler/model/clock.h"

namespace muster {

class ChildTasks {
 public:
  using Work = std::function<std::string()>;
  using Done =
      std::function<void(std::optional<std::string>)>;  // nothing: it died or took too long

  explicit ChildTasks(boost::asio::io_context& io);
  ~ChildTasks();
  void run(Work work, Milliseconds limit, Done done);

 private:
  struct Task;
  void read_more(const std::shared_ptr<Task>& task);
  void finish(const std::shared_ptr<Task>& task, bool whole);

  boost::asio::io_context& io_;
  std::list<std::shared_ptr<Task>> tasks_;
};

}  // namespace muster
