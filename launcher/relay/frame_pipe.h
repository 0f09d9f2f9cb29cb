// Frames over standard input and output of a relay: whole frames in, bytes out in order. Both
// descriptors are put into non-blocking mode and are the pipe's from then on. One thread.
#pragma once

#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <cstddef>
#include <functional>
#include <string>

#include "launcher/wire/frame.h"

namespace muster {

class FramePipe {
 public:
  struct Handlers {
    std::function<void(Frame)> on_frame;
    std::function<void(const std::string& why)> on_end;  // once
  };

  FramePipe(boost::asio::io_context& io, int in, int out);
  void start(Handlers handlers);
  void write(std::string bytes);

 private:
  void read();
  void take_frames();
  void send();
  void end(const std::string& why);

  boost::asio::posix::stream_descriptor in_;
  boost::asio::posix::stream_descriptor out_;
  Handlers handlers_;
  FrameReader reader_;
  std::array<char, 256 * 1024> input_;
  std::string queue_;
  std::string sending_;
  bool is_over_ = false;
};

}  // namespace muster
