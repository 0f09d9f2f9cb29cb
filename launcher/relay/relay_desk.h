// The desk of a login at a relay: what only the login node may decide or do is asked of the
// controller, and the login waits for the answer without holding up others. One per ticket; on the
// relay's one thread.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launcher/relay/relay_carriage.h"
#include "launcher/transport/login_desk.h"

namespace boost::asio {
class io_context;
}

namespace muster {

class RelayDesk final : public LoginDesk, public std::enable_shared_from_this<RelayDesk> {
 public:
  RelayDesk(boost::asio::io_context& io, const RelayConnect& asked, SendToController send);

  std::vector<std::string> known_types(const SshTarget& target) override;
  void judge(const SshTarget& target, const std::string& key,
             std::function<void(HostKeyVerdict)> done) override;
  std::unique_ptr<KeyAgent> key_agent() override;
  // They cost no way to the controller and back, and nothing that is signed there.
  bool prefers_key_files() const override { return true; }

  // The controller's answers.
  void judged(bool is_trusted);
  void signature(std::string bytes);  // empty: refused

 private:
  class ForwardedKeys;

  boost::asio::io_context& io_;
  std::int64_t ticket_;
  std::vector<std::string> host_key_types_;
  std::vector<std::string> keys_;  // base64
  SendToController send_;
  std::function<void(HostKeyVerdict)> on_judged_;
  std::function<void(std::optional<std::string>)> on_signature_;
  // Answers come in the order of the questions; those to a login that was dropped are nobody's.
  int verdicts_to_come_ = 0;
  int signatures_to_come_ = 0;
};

}  // namespace muster
