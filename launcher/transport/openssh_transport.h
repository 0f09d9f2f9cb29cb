// Reaches nodes through child processes of the `ssh` program: slower than SshTransport, but with
// all of ~/.ssh/config: jump hosts, certificates, Kerberos, hardware keys.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/transport/link/remote_process.h"
#include "launcher/transport/link/start_gates.h"
#include "launcher/transport/link/transport.h"
#include "launcher/transport/ssh/host_key_store.h"
#include "scheduler/model/compute.h"
#include "scheduler/model/link.h"

namespace muster {

// `ssh` and its options for a node; the remote command follows as one more word.
std::vector<std::string> openssh_argv(const SshTarget& target, const SshSettings& settings,
                                      const ConnectSettings& limits);

struct OpensshContext;
class OpensshConnect;

class OpensshTransport {
 public:
  OpensshTransport(boost::asio::io_context& io, SshSettings settings,
                   std::shared_ptr<PushGate> pushes);
  ~OpensshTransport();  // drops what is under way without a call; links live on

  // As Transport::connect.
  void connect(const SshTarget& target, const AgentLaunch& launch, ConnectDone done);

 private:
  std::shared_ptr<OpensshContext> context_;
  UnderWay<OpensshConnect> active_;
};

// What the `ssh` program said on standard error, turned into a LinkFailure. Pure.

// sshd was busy and closed the connection before login: worth another try.
bool openssh_was_dropped(const RemoteExit& exit, std::string_view errors);

// `ssh` ended before the remote shell ran our command. `output` is what came on standard output.
LinkFailure openssh_failure(const NodeAddress& node, const RemoteExit& exit,
                            std::string_view output, std::string_view errors);

}  // namespace muster
