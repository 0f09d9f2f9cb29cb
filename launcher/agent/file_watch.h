// Tells when a file in one of some directories has been written to (inotify). A hint only: where
// the system has no watch left, or the event comes late, the agent's regular tick finds the change.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <map>
#include <string>

namespace muster {

class FileWatch {
 public:
  FileWatch(boost::asio::io_context& io, std::function<void()> on_change);
  void add(const std::string& directory);
  void remove(const std::string& directory);

 private:
  void wait();
  void drain();

  boost::asio::posix::stream_descriptor events_;
  boost::asio::steady_timer pause_;
  std::function<void()> on_change_;
  std::map<std::string, int> watched_;
};

}  // namespace muster
