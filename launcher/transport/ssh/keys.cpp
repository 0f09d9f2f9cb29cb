#include "launcher/transport/ssh/keys.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "launcher/transport/ssh/key_file.h"

namespace muster {
namespace {

constexpr std::size_t max_attempts = 5;  // sshd's MaxAuthTries is 6

// A blob starts with its type as a length-prefixed string.
bool has_type(const std::string& blob, std::string_view type) {
  return WireReader(blob).string().starts_with(type);
}

std::string needs_ssh(bool is_rsa) {
  return std::string(is_rsa ? " is an RSA key" : " is a key") +
         " that only the ssh program can use (`transport: openssh`)";
}

}  // namespace

SshKeys::SshKeys(SshSession& session, const NodeAddress& node, const SshSettings& settings)
    : session_(session),
      node_(node),
      settings_(settings) {
  if (settings_.agent_socket.empty()) return;
  agent_ = std::make_unique<SshAgent>(session_.io(), settings_.agent_socket);
  agent_->list([this](std::optional<std::vector<AgentKey>> keys) {
    has_agent_answer_ = true;
    agent_keys_ = std::move(keys);
    session_.wake();
  });
}

SshKeys::Progress SshKeys::advance() {
  if (agent_ && !has_agent_answer_) return Progress::waiting;
  if (!collected_) collect();
  collected_ = true;
  while (next_ < std::min(candidates_.size(), max_attempts)) {
    const Candidate& candidate = candidates_[next_];
    const int result = attempt(candidate);
    if (result == LIBSSH2_ERROR_EAGAIN) return Progress::waiting;
    if (result == 0) return Progress::accepted;
    const bool disconnected =
        result == LIBSSH2_ERROR_SOCKET_DISCONNECT || result == LIBSSH2_ERROR_SOCKET_SEND;
    if (disconnected && next_ == 0) return Progress::cut_off;
    note(candidate.name + why_not(candidate));
    signature_ = NotAsked{};
    ++next_;
    if (disconnected) break;  // sshd counts attempts, too
  }
  return Progress::refused;
}

std::string SshKeys::why_not(const Candidate& candidate) const {
  if (!std::holds_alternative<Refused>(signature_)) return " refused";
  return candidate.path.empty() ? " not signed by the ssh agent" : " is damaged";
}

int SshKeys::attempt(const Candidate& candidate) {
  void* self = this;
  return libssh2_userauth_publickey(
      session_.get(), node_.user.c_str(),
      reinterpret_cast<const unsigned char*>(candidate.blob.data()), candidate.blob.size(),
      &SshKeys::sign, &self);
}

int SshKeys::sign(LIBSSH2_SESSION*, unsigned char** signature, size_t* signature_bytes,
                  const unsigned char* data, size_t data_bytes, void** self) {
  const std::string_view text(reinterpret_cast<const char*>(data), data_bytes);
  return static_cast<SshKeys*>(*self)->sign(signature, signature_bytes, text);
}

// libssh2 calls again after EAGAIN, with the same data.
int SshKeys::sign(unsigned char** signature, size_t* signature_bytes, std::string_view data) {
  if (std::holds_alternative<NotAsked>(signature_)) ask_for_signature(data);
  if (std::holds_alternative<Asked>(signature_)) return LIBSSH2_ERROR_EAGAIN;
  const auto* bytes = std::get_if<std::string>(&signature_);
  if (bytes == nullptr) return LIBSSH2_ERROR_PUBLICKEY_UNVERIFIED;
  *signature = static_cast<unsigned char*>(session_.allocate(bytes->size()));
  if (*signature == nullptr) return LIBSSH2_ERROR_ALLOC;
  std::copy(bytes->begin(), bytes->end(), *signature);
  *signature_bytes = bytes->size();
  return 0;
}

void SshKeys::ask_for_signature(std::string_view data) {
  const auto signed_as = [this](std::optional<std::string> bytes) {
    if (bytes) {
      signature_ = std::move(*bytes);
    } else {
      signature_ = Refused{};
    }
  };
  const Candidate& candidate = candidates_[next_];
  // To read a key file libssh2 has OpenSSL try all formats: 0.4 ms of the controller for each host.
  // And libssh2 1.11.1 frees memory twice over an ECDSA key in PEM.
  if (!candidate.path.empty()) return signed_as(sign_with_key_file(candidate.path, data));
  signature_ = Asked{};
  agent_->sign(candidate.blob, data, [this, signed_as](std::optional<std::string> bytes) {
    signed_as(std::move(bytes));
    session_.wake();
  });
}

void SshKeys::collect() {
  if (!node_.identity_file.empty()) {
    collect_file(node_.identity_file, true);
    collect_agent();
    KeyFile key;
    if (read_key_file(node_.identity_file, key)) prefer_agent_key(key.public_blob);
    return;
  }
  collect_agent();
  for (const char* name : {"id_ed25519", "id_ecdsa", "id_rsa", "id_ed25519_sk", "id_ecdsa_sk"}) {
    collect_file(settings_.key_folder + "/" + name, false);
  }
  if (candidates_.empty() && notes_.empty()) note("there is no key in " + settings_.key_folder);
}

void SshKeys::collect_file(const std::string& path, bool named) {
  KeyFile key;
  if (!read_key_file(path, key)) {
    if (named) note(path + " cannot be read");
    return;
  }
  if (key.kind == KeyKind::rsa || key.kind == KeyKind::other) {
    has_untried_ = true;
    return note(path + needs_ssh(key.kind == KeyKind::rsa));
  }
  if (key.has_passphrase) {
    return note(path + " has a passphrase and no ssh agent holds it: run ssh-add " + path);
  }
  candidates_.push_back({path, key.public_blob, path});
}

void SshKeys::collect_agent() {
  if (!agent_) return;
  if (!agent_keys_) return note("the ssh agent at " + settings_.agent_socket + " does not answer");
  for (const AgentKey& key : *agent_keys_) {
    const std::string name = "agent key " + key.comment;
    if (!has_type(key.blob, "ssh-ed25519") && !has_type(key.blob, "ecdsa-sha2-nistp")) {
      has_untried_ = true;
      note(name + needs_ssh(has_type(key.blob, "ssh-rsa")));
    } else {
      candidates_.push_back({name, key.blob, ""});
    }
  }
}

void SshKeys::prefer_agent_key(const std::string& blob) {
  std::stable_partition(candidates_.begin(), candidates_.end(), [&](const Candidate& each) {
    return !each.path.empty() || each.blob == blob;
  });
}

std::string SshKeys::tried() const {
  return notes_;
}

void SshKeys::note(const std::string& text) {
  notes_ += (notes_.empty() ? "" : ", ") + text;
}

}  // namespace muster
