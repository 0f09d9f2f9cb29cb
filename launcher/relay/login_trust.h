// What the login node alone may decide and do for logins that happen on other nodes: which host key
// is the right one, and signatures with the person's keys. The private keys and the ssh agent's
// socket stay here. Owned by the fan-out, on the controller's thread; answers come from the
// io_context or from inside the call.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/transport/login_desk.h"
#include "launcher/transport/ssh_settings.h"

namespace muster {

class LoginTrust {
 public:
  virtual ~LoginTrust() = default;
  virtual std::vector<std::string> known_types(const SshTarget& target) = 0;
  virtual void judge(const SshTarget& target, const std::string& host_key,
                     std::function<void(bool is_trusted)> done) = 0;
  // Public keys that can sign for the node, the best first; at most as many as sshd lets try.
  virtual void keys_for(const NodeAddress& node,
                        std::function<void(std::vector<std::string>)> done) = 0;
  // `data` has been checked: it is a login. Nothing: refused.
  virtual void sign(const std::string& public_key, std::string_view data,
                    std::function<void(std::optional<std::string>)> done) = 0;
};

std::shared_ptr<LoginTrust> make_login_trust(boost::asio::io_context& io,
                                             const SshSettings& settings);

}  // namespace muster
