// What a login has to ask where its person's files are: whether a host key is the right one, and
// for signatures with keys that do not leave their place. Two: the one here, for the account that
// runs this process, and a relay's, which asks the controller (launcher/relay). One thread; answers
// come from the io_context or from inside the call, and none after the asker is gone.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/transport/host_key_store.h"

namespace boost::asio {
class io_context;
}

namespace muster {

struct SshTarget;

struct AgentKey {
  std::string blob;  // the public key in ssh's wire format
  std::string comment;
};

// Keys that sign without being seen: an ssh agent. One question at a time.
class KeyAgent {
 public:
  virtual ~KeyAgent() = default;  // calls nothing afterwards
  // Nothing: no answer in time.
  virtual void list(std::function<void(std::optional<std::vector<AgentKey>>)> done) = 0;
  // The bare signature, without the name of its algorithm.
  virtual void sign(const std::string& blob, std::string_view data,
                    std::function<void(std::optional<std::string>)> done) = 0;
};

class LoginDesk {
 public:
  virtual ~LoginDesk() = default;
  // Names of the key types on record for the host: the ones to ask it for.
  virtual std::vector<std::string> known_types(const SshTarget& target) = 0;
  virtual void judge(const SshTarget& target, const std::string& key,
                     std::function<void(HostKeyVerdict)> done) = 0;
  virtual std::unique_ptr<KeyAgent> key_agent() = 0;  // null: there is none
  // Key files of this account are tried first, and need not be named in the address.
  virtual bool prefers_key_files() const = 0;
};

// Of this account: its known_hosts files and muster's own, and the ssh agent at `agent_socket`.
std::shared_ptr<LoginDesk> make_own_desk(boost::asio::io_context& io,
                                         const std::string& own_known_hosts,
                                         const std::string& agent_socket);

}  // namespace muster
