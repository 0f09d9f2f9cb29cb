// A Link over a running remote command, from behind the MUSTER-ATTACHED line.
#pragma once

#include <memory>
#include <string>

#include "launcher/transport/link/remote_process.h"
#include "launcher/transport/link/transport.h"

namespace boost::asio {
class io_context;
}

namespace muster {

// `first_bytes` are the stream's first bytes, read with the marker.
std::unique_ptr<Link> make_process_link(boost::asio::io_context& io,
                                        std::unique_ptr<RemoteProcess> process,
                                        std::string first_bytes, const NodeAddress& node);

}  // namespace muster
