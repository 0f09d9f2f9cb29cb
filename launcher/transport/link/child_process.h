// A RemoteProcess that is a child of ours, such as `ssh HOST COMMAND`: standard input and output
// are one socket pair, standard error a pipe.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "launcher/transport/link/remote_process.h"

namespace boost::asio {
class io_context;
}

namespace muster {

// A program that cannot be started is reported through on_exit.
std::unique_ptr<RemoteProcess> start_child(boost::asio::io_context& io,
                                           std::span<const std::string> argv);

// Each command is a child: `argv` and the command as one more word.
std::shared_ptr<RemoteShell> make_child_shell(boost::asio::io_context& io,
                                              std::vector<std::string> argv);

// The shell of this machine: what nodes of the local transport are reached with.
std::shared_ptr<RemoteShell> make_local_shell(boost::asio::io_context& io);

}  // namespace muster
