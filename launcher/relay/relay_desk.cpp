#include "launcher/relay/relay_desk.h"

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <utility>

#include "launcher/transport/base64.h"

namespace muster {

// The keys of the login node, as an ssh agent would show them.
class RelayDesk::ForwardedKeys final : public KeyAgent {
 public:
  explicit ForwardedKeys(std::shared_ptr<RelayDesk> desk) : desk_(std::move(desk)) {}
  ~ForwardedKeys() override { desk_->on_signature_ = nullptr; }

  void list(std::function<void(std::optional<std::vector<AgentKey>>)> done) override {
    boost::asio::post(desk_->io_, [alive = std::weak_ptr(alive_), desk = desk_,
                                   done = std::move(done)] {
      if (alive.expired()) return;
      std::vector<AgentKey> keys;
      for (const std::string& each : desk->keys_) {
        keys.push_back({decode_base64(each), "of the login node"});
      }
      done(std::move(keys));
    });
  }

  void sign(const std::string& blob, std::string_view data,
            std::function<void(std::optional<std::string>)> done) override {
    desk_->on_signature_ = std::move(done);
    ++desk_->signatures_to_come_;
    desk_->send_(SignAsked{desk_->ticket_, encode_base64(blob)}, data);
  }

 private:
  std::shared_ptr<RelayDesk> desk_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

RelayDesk::RelayDesk(boost::asio::io_context& io, const RelayConnect& asked, SendToController send)
    : io_(io),
      ticket_(asked.ticket),
      host_key_types_(asked.host_key_types),
      keys_(asked.keys),
      send_(std::move(send)) {}

std::vector<std::string> RelayDesk::known_types(const SshTarget&) {
  return host_key_types_;
}

void RelayDesk::judge(const SshTarget&, const std::string& key,
                      std::function<void(HostKeyVerdict)> done) {
  on_judged_ = std::move(done);
  ++verdicts_to_come_;
  send_(HostKeySeen{ticket_}, key);
}

std::unique_ptr<KeyAgent> RelayDesk::key_agent() {
  return std::make_unique<ForwardedKeys>(shared_from_this());
}

void RelayDesk::judged(bool is_trusted) {
  if (--verdicts_to_come_ > 0) return;
  const auto done = std::exchange(on_judged_, nullptr);
  if (done) done(is_trusted ? HostKeyVerdict(HostKeyTrusted{}) : HostKeyVerdict(HostKeyUnknown{}));
}

void RelayDesk::signature(std::string bytes) {
  if (--signatures_to_come_ > 0) return;
  const auto done = std::exchange(on_signature_, nullptr);
  if (done) done(bytes.empty() ? std::nullopt : std::optional(std::move(bytes)));
}

}  // namespace muster
