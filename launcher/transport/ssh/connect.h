// One attempt to reach one node over libssh2, from name to agent.
//
//   resolve ──► gate ──► tcp ──► login ──► attach ──► done
//                ▲                 │
//                └── pause ◄───────┘ dropped by sshd, up to `retries` times
//
// Every state can end in a LinkFailure. Private to launcher/transport; one thread.
#pragma once

#include <functional>
#include <memory>
#include <random>

#include "launcher/transport/link/handshake_gate.h"
#include "launcher/transport/link/push_gate.h"
#include "launcher/transport/link/remote_process.h"
#include "launcher/transport/link/transport.h"
#include "launcher/transport/ssh/host_resolver.h"
#include "launcher/transport/ssh/login.h"
#include "launcher/transport/ssh/settings.h"

namespace muster {

// What all attempts of a transport share.
struct SshContext {
  boost::asio::io_context& io;
  SshSettings settings;
  HostKeyStore host_keys;
  HostResolver resolver;
  std::shared_ptr<HandshakeGate> gate;
  std::shared_ptr<PushGate> pushes;
  std::mt19937_64 jitter;

  SshContext(boost::asio::io_context& io, SshSettings settings, std::shared_ptr<PushGate> pushes);
};

struct SshConnected {
  std::unique_ptr<RemoteProcess> process;
  std::string first_bytes;  // of the process
  ConnectProfile profile;
  std::string methods;
  std::string first_contact;  // a sentence; empty: the host was known
};
using SshConnectResult = std::variant<SshConnected, LinkFailure, LoginNeedsOpenssh>;

class SshConnect {
 public:
  virtual ~SshConnect() = default;
  virtual void cancel() = 0;  // nothing is called any more
};

std::shared_ptr<SshConnect> begin_ssh_connect(std::shared_ptr<SshContext> context,
                                              const SshTarget& target, const AgentLaunch& launch,
                                              std::function<void(SshConnectResult)> done);

}  // namespace muster
