// The user's ssh agent, asked over its Unix socket without ever holding up the thread: a forwarded
// agent whose network is gone accepts connections and says nothing. Every question has a deadline.
// Callbacks come from the io_context, and none after the object is gone.
// Private to launcher/transport; one thread.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace boost::asio {
class io_context;
}

namespace muster {

struct AgentKey {
  std::string blob;  // the public key in ssh's wire format
  std::string comment;
};

// What an agent answers, from behind the length; nothing: it refuses, or the answer is damaged.
std::optional<std::vector<AgentKey>> parse_agent_keys(std::string_view answer);
std::optional<std::string> parse_agent_signature(std::string_view answer);

// One question at a time.
class SshAgent {
 public:
  SshAgent(boost::asio::io_context& io, const std::string& socket);
  SshAgent(const SshAgent&) = delete;
  ~SshAgent();  // calls nothing afterwards

  // Nothing: no answer in time.
  void list(std::function<void(std::optional<std::vector<AgentKey>>)> done);
  // The bare signature, without the name of its algorithm.
  void sign(const std::string& blob, std::string_view data,
            std::function<void(std::optional<std::string>)> done);

 private:
  class Conversation;
  std::shared_ptr<Conversation> conversation_;
};

}  // namespace muster
