// The shell of this machine as a RemoteShell: each command is a child of ours. What a relay reaches
// nodes of the local transport with.
#pragma once

#include <memory>

#include "launcher/transport/link/remote_process.h"

namespace boost::asio {
class io_context;
}

namespace muster {

std::shared_ptr<RemoteShell> make_local_shell(boost::asio::io_context& io);

}  // namespace muster
