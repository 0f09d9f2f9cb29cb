#include "launcher/transport/ssh_keys.h"

#include <algorithm>
#include <string_view>

namespace muster {
namespace {

constexpr std::size_t max_attempts = 5;  // sshd's MaxAuthTries is 6

std::string_view blob_of(const libssh2_agent_publickey& key) {
  return {reinterpret_cast<const char*>(key.blob), key.blob_len};
}

// A blob starts with its type as a length-prefixed string.
bool has_type(const libssh2_agent_publickey& key, std::string_view type) {
  return blob_of(key).substr(std::min<std::size_t>(4, key.blob_len)).starts_with(type);
}

std::string needs_ssh(bool is_rsa) {
  return std::string(is_rsa ? " is an RSA key" : " is a key") +
         " that only the ssh program can use (`transport: openssh`)";
}

}  // namespace

SshKeys::SshKeys(LIBSSH2_SESSION* session, const NodeAddress& node, const SshSettings& settings)
    : session_(session), user_(node.user), node_(node), settings_(settings) {}

SshKeys::~SshKeys() {
  if (agent_ == nullptr) return;
  libssh2_agent_disconnect(agent_);
  libssh2_agent_free(agent_);
}

SshKeys::Progress SshKeys::advance() {
  if (!collected_) collect(node_, settings_);
  collected_ = true;
  while (next_ < std::min(candidates_.size(), max_attempts)) {
    const Candidate& candidate = candidates_[next_];
    const int result = attempt(candidate);
    if (result == LIBSSH2_ERROR_EAGAIN) return Progress::waiting;
    if (result == 0) return Progress::accepted;
    const bool disconnected =
        result == LIBSSH2_ERROR_SOCKET_DISCONNECT || result == LIBSSH2_ERROR_SOCKET_SEND;
    if (disconnected && next_ == 0) return Progress::cut_off;
    note(candidate.name + " refused");
    ++next_;
    if (disconnected) break;  // sshd counts attempts, too
  }
  return Progress::refused;
}

int SshKeys::attempt(const Candidate& candidate) {
  if (candidate.agent_key != nullptr) {
    return libssh2_agent_userauth(agent_, user_.c_str(), candidate.agent_key);
  }
  return libssh2_userauth_publickey_fromfile_ex(session_, user_.data(),
                                                static_cast<unsigned>(user_.size()), nullptr,
                                                candidate.path.c_str(), nullptr);
}

void SshKeys::collect(const NodeAddress& node, const SshSettings& settings) {
  if (!node.identity_file.empty()) {
    collect_file(node.identity_file, true);
    collect_agent(settings.agent_socket);
    KeyFile key;
    if (read_key_file(node.identity_file, key)) prefer_agent_key(key.public_blob);
    return;
  }
  collect_agent(settings.agent_socket);
  for (const char* name : {"id_ed25519", "id_ecdsa", "id_rsa", "id_ed25519_sk", "id_ecdsa_sk"}) {
    collect_file(settings.key_folder + "/" + name, false);
  }
  if (candidates_.empty() && notes_.empty()) note("there is no key in " + settings.key_folder);
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
  candidates_.push_back({path, nullptr, path});
}

void SshKeys::collect_agent(const std::string& socket) {
  if (socket.empty()) return;
  agent_ = libssh2_agent_init(session_);
  if (agent_ == nullptr) return;
  libssh2_agent_set_identity_path(agent_, socket.c_str());
  if (libssh2_agent_connect(agent_) != 0 || libssh2_agent_list_identities(agent_) != 0) {
    return note("the ssh agent at " + socket + " does not answer");
  }
  libssh2_agent_publickey* key = nullptr;
  while (libssh2_agent_get_identity(agent_, &key, key) == 0) {
    const std::string name = std::string("agent key ") + (key->comment ? key->comment : "");
    if (!has_type(*key, "ssh-ed25519") && !has_type(*key, "ecdsa-sha2-nistp")) {
      has_untried_ = true;
      note(name + needs_ssh(has_type(*key, "ssh-rsa")));
    } else {
      candidates_.push_back({name, key, ""});
    }
  }
}

void SshKeys::prefer_agent_key(const std::string& blob) {
  std::stable_partition(candidates_.begin(), candidates_.end(), [&](const Candidate& each) {
    return each.agent_key == nullptr || (!blob.empty() && blob_of(*each.agent_key) == blob);
  });
}

std::string SshKeys::tried() const {
  return notes_;
}

void SshKeys::note(const std::string& text) {
  notes_ += (notes_.empty() ? "" : ", ") + text;
}

}  // namespace muster
