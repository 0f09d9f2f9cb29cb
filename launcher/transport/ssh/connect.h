// One attempt to reach one node over libssh2, from name to agent.
//
//   Resolving ──► Queued ──► Connecting ──► LoggingIn ──► Attaching ──► Done
//                   ▲                           │
//                   └──────── Pausing ◄─────────┘ dropped by sshd, up to `retries` times
//
// Every state can end in a LinkFailure. Private to launcher/transport; one thread.
#pragma once

#include <functional>
#include <memory>
#include <random>
#include <string>
#include <variant>
#include <vector>

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/thread_pool.hpp>

#include "launcher/transport/link/handshake_gate.h"
#include "launcher/transport/link/push_gate.h"
#include "launcher/transport/link/remote_process.h"
#include "launcher/transport/link/transport.h"
#include "launcher/transport/ssh/login.h"
#include "launcher/transport/ssh/settings.h"
#include "scheduler/model/link.h"

namespace muster {

// Names to addresses without holding up the one thread: getaddrinfo runs on a few helper threads.

using Endpoints = std::vector<boost::asio::ip::tcp::endpoint>;
using ResolveResult = std::variant<Endpoints, LinkFailure>;

class HostResolver {
 public:
  explicit HostResolver(boost::asio::io_context& io);
  ~HostResolver();  // waits for the look-ups that run, drops those that wait

  // Addresses in numbers are answered without a thread. `done` comes from the io_context.
  void resolve(const std::string& host, int port, std::function<void(ResolveResult)> done);

 private:
  boost::asio::io_context& io_;
  boost::asio::thread_pool threads_;
};

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
