#include "launcher/relay/login_trust.h"

#include <algorithm>
#include <deque>
#include <utility>

#include "launcher/transport/key_file.h"
#include "launcher/transport/key_signature.h"
#include "launcher/transport/wire_reader.h"

namespace muster {
namespace {

// sshd's MaxAuthTries is 6; the node's own two key files come first.
constexpr std::size_t most_keys = 3;
// An ssh agent answers one after the other, and lets 128 wait at its door.
constexpr int most_at_agent = 16;

// libssh2 1.10 signs with no others.
bool is_usable(const std::string& key) {
  const std::string_view type = WireReader(key).string();
  return type == "ssh-ed25519" || (type.starts_with("ecdsa-sha2-nistp"));
}

class OwnTrust final : public LoginTrust, public std::enable_shared_from_this<OwnTrust> {
 public:
  OwnTrust(boost::asio::io_context& io, const SshSettings& settings)
      : settings_(settings),
        desk_(make_own_desk(io, settings.own_known_hosts, settings.agent_socket)) {}

  std::vector<std::string> known_types(const SshTarget& target) override {
    return desk_->known_types(target);
  }

  void judge(const SshTarget& target, const std::string& host_key,
             std::function<void(bool)> done) override {
    desk_->judge(target, host_key, [done = std::move(done)](const HostKeyVerdict& verdict) {
      done(std::holds_alternative<HostKeyTrusted>(verdict));
    });
  }

  void keys_for(const NodeAddress& node,
                std::function<void(std::vector<std::string>)> done) override {
    askers_.push_back({node, std::move(done)});
    if (askers_.size() > 1) return;  // whoever asks meanwhile gets the same answer
    std::shared_ptr<KeyAgent> agent = desk_->key_agent();
    if (!agent) return tell_keys({});
    agent->list([weak = weak_from_this(), agent](const Listed& listed) {
      if (const auto self = weak.lock()) self->tell_keys(listed);
    });
  }

  void sign(const std::string& public_key, std::string_view data,
            std::function<void(std::optional<std::string>)> done) override {
    const auto file = files_.find(public_key);
    if (file != files_.end()) return done(sign_with_key_file(file->second, data));
    for_agent_.push_back({public_key, std::string(data), std::move(done)});
    ask_agent();
  }

 private:
  using Listed = std::optional<std::vector<AgentKey>>;
  struct Asker {
    NodeAddress node;
    std::function<void(std::vector<std::string>)> done;
  };
  struct Unsigned {
    std::string public_key;
    std::string data;
    std::function<void(std::optional<std::string>)> done;
  };

  void tell_keys(const Listed& listed) {
    std::vector<std::string> keys;
    for (const AgentKey& each : listed.value_or(std::vector<AgentKey>())) {
      if (is_usable(each.blob)) keys.push_back(each.blob);
    }
    for (const Asker& each : std::exchange(askers_, {})) each.done(with_files(each.node, keys));
  }

  void ask_agent() {
    if (at_agent_ == most_at_agent || for_agent_.empty()) return;
    const Unsigned next = std::move(for_agent_.front());
    for_agent_.pop_front();
    std::shared_ptr<KeyAgent> agent = desk_->key_agent();
    if (!agent) return next.done(std::nullopt);
    ++at_agent_;
    agent->sign(next.public_key, next.data,
                [weak = weak_from_this(), agent, done = next.done](const auto& signature) {
                  done(signature);
                  const auto self = weak.lock();
                  if (!self) return;
                  --self->at_agent_;
                  self->ask_agent();
                });
  }

  // A key that the cluster file names goes first, whoever holds it.
  std::vector<std::string> with_files(const NodeAddress& node, std::vector<std::string> keys) {
    if (!node.identity_file.empty()) {
      add_file(node.identity_file, keys, true);
    } else {
      for (const char* name : {"id_ed25519", "id_ecdsa"}) {
        add_file(settings_.key_folder + "/" + name, keys, false);
      }
    }
    if (keys.size() > most_keys) keys.resize(most_keys);
    return keys;
  }

  void add_file(const std::string& path, std::vector<std::string>& keys, bool first) {
    KeyFile file;
    if (!read_key_file(path, file) || !is_usable(file.public_blob)) return;
    const auto known = std::find(keys.begin(), keys.end(), file.public_blob);
    if (known == keys.end()) {
      if (file.has_passphrase) return;
      files_[file.public_blob] = path;
      keys.insert(first ? keys.begin() : keys.end(), file.public_blob);
    } else if (first) {
      std::rotate(keys.begin(), known, known + 1);
    }
  }

  SshSettings settings_;
  std::shared_ptr<LoginDesk> desk_;
  std::vector<Asker> askers_;
  std::deque<Unsigned> for_agent_;
  int at_agent_ = 0;
  std::map<std::string, std::string> files_;  // public key to the file of the private one
};

}  // namespace

std::shared_ptr<LoginTrust> make_login_trust(boost::asio::io_context& io,
                                             const SshSettings& settings) {
  return std::make_shared<OwnTrust>(io, settings);
}

}  // namespace muster
