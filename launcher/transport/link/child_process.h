// A RemoteProcess that is a child of ours, such as `ssh HOST COMMAND`: standard input and output
// are one socket pair, standard error a pipe.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "launcher/transport/link/remote_process.h"

namespace boost::asio {
class io_context;
}

namespace muster {

// A program that cannot be started is reported through on_exit.
std::unique_ptr<RemoteProcess> start_child(boost::asio::io_context& io,
                                           std::span<const std::string> argv);

}  // namespace muster
