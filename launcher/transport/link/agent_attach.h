// From an open remote shell to an agent's byte stream. The same for every transport with a shell.
//
//   shell --MUSTER-SHELL--> starting --MUSTER-ATTACHED--> done
//     ^                        | MUSTER-PUSH
//     |                        v
//     |<--- look again ------ gate
//     |                        v
//     '<--- MUSTER-PUSHED --- pushing (once)
//
// Owned by its caller through a shared_ptr; `cancel` ends it without a call.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <variant>

#include "launcher/transport/link/remote_process.h"
#include "launcher/transport/link/start_gates.h"
#include "launcher/transport/link/transport.h"

namespace muster {

struct Attached {
  std::unique_ptr<RemoteProcess> process;
  std::string first_bytes;  // came behind the marker
  ConnectProfile profile;   // shell, push, agent
};

// The command ended although no shell had started: what it said is the caller's to explain.
struct NoShell {
  RemoteExit exit;
  std::string output;
  std::string errors;
};

// The failure of a transport whose own program does not speak: only what the node said is known.
LinkFailure no_shell_failure(const NodeAddress& node, const NoShell& none);

using AttachResult = std::variant<Attached, LinkFailure, NoShell>;

class AgentAttach {
 public:
  virtual ~AgentAttach() = default;
  virtual void cancel() = 0;
};

// `on_shell` is called once the login shell runs our command: the host has let us in.
std::shared_ptr<AgentAttach> attach_agent(boost::asio::io_context& io,
                                          std::shared_ptr<RemoteShell> shell,
                                          std::shared_ptr<PushGate> gate, const NodeAddress& node,
                                          const AgentLaunch& launch, std::function<void()> on_shell,
                                          std::function<void(AttachResult)> done);

// A Link over the command, from behind the marker, or why there is none.
ConnectResult as_link(boost::asio::io_context& io, AttachResult result, const NodeAddress& node);

}  // namespace muster
