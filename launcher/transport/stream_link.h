// A Link over a Unix socket that an agent of this machine listens on.
#pragma once

#include <boost/asio/local/stream_protocol.hpp>
#include <memory>
#include <string>

#include "launcher/transport/link/transport.h"

namespace muster {

// `peer` names the agent in messages.
std::unique_ptr<Link> make_stream_link(boost::asio::local::stream_protocol::socket socket,
                                       const std::string& peer);

}  // namespace muster
