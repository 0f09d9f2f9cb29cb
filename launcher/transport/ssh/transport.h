// Reaches nodes over ssh with libssh2: many at once on the one thread. What libssh2 cannot do goes
// to the fallback.
#pragma once

#include <functional>
#include <memory>

#include "launcher/transport/link/start_gates.h"
#include "launcher/transport/link/transport.h"
#include "launcher/transport/ssh/host_key_store.h"

namespace muster {

struct SshContext;
class SshConnect;

class SshTransport {
 public:
  using Fallback = std::function<void(const SshTarget&, const AgentLaunch&, ConnectDone)>;

  // `fallback` takes nodes that need RSA keys or algorithms libssh2 lacks; it may be empty.
  SshTransport(boost::asio::io_context& io, SshSettings settings, std::shared_ptr<PushGate> pushes,
               Fallback fallback);
  ~SshTransport();  // drops what is under way without a call; links live on

  // As Transport::connect.
  void connect(const SshTarget& target, const AgentLaunch& launch, ConnectDone done);

 private:
  std::shared_ptr<SshContext> context_;
  Fallback fallback_;
  UnderWay<SshConnect> active_;
};

}  // namespace muster
