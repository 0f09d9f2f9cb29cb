// The helper that reads the node's sources, as a child of the agent: the agent reaps all its
// children, this one too, and turns to it when its socket or the time says so. Owned by
// HealthMonitor, on the agent's thread.
//
//   closed ─► open ⇄ released: no helper of ours has a GPU open
#pragma once

#include <sys/types.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "health/read/node_reader.h"
#include "scheduler/text/clock.h"

namespace muster {

class SourceReader {
 public:
  // `on_wake`: the reader has been advanced.
  SourceReader(boost::asio::io_context& io, std::vector<std::string> helper,
               std::function<void()> on_wake);
  SourceReader(const SourceReader&) = delete;

  bool is_open() const { return reader_ != nullptr; }
  void open();  // not while it is released
  void release();
  bool acquire();  // false: it was not released
  bool is_released() const { return is_released_; }
  NodeReader* operator->() const { return reader_.get(); }  // while it is open

  // Either ends the other. Not at all where it would be later than `most`.
  void wake_after(Milliseconds pause, Milliseconds most);
  void wake_when_read();

  bool reaped(pid_t pid, int wait_status);  // true: it was the helper
  pid_t helper() const { return reader_ ? reader_->helper() : 0; }

 private:
  pid_t wait(pid_t pid, int* status);
  void wait_for_timer();
  void wake();

  std::vector<std::string> helper_;
  std::function<void()> on_wake_;
  boost::asio::steady_timer timer_;
  // The helper's socket while it is waited for; it says something when it is done.
  std::unique_ptr<boost::asio::posix::stream_descriptor> helper_says_;
  std::map<pid_t, int> dead_;  // until the reader asks, when it is destroyed at the latest
  std::unique_ptr<NodeReader> reader_;
  bool is_released_ = false;
};

}  // namespace muster
