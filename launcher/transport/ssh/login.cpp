#include "launcher/transport/ssh/session.h"

#include <libssh2.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <utility>

#include "launcher/transport/link/attach_failure.h"
#include "launcher/transport/ssh/key_file.h"
#include "scheduler/text/text.h"

namespace muster {
namespace {

// Before authentication a lost connection is sshd's way to say that it is busy.
bool is_drop(int error) {
  return error == LIBSSH2_ERROR_SOCKET_DISCONNECT || error == LIBSSH2_ERROR_SOCKET_RECV ||
         error == LIBSSH2_ERROR_SOCKET_SEND || error == LIBSSH2_ERROR_BANNER_RECV ||
         error == LIBSSH2_ERROR_BANNER_SEND;
}

// The keys of one login, tried one after the other: those of the ssh agent, then key files; a key
// file that the cluster file names goes first. Keys for which libssh2 1.10 is too old are skipped
// and remembered: it signs with RSA and SHA-1 only, which sshd refuses, and knows no hardware keys.
// Keys with a passphrase count when the agent holds them.
class SshKeys {
 public:
  enum class Progress { waiting, accepted, refused, cut_off };

  // Asks the agent for its keys at once; `session`, which outlives this, is woken at its answers.
  SshKeys(SshSession& session, const NodeAddress& node, const SshSettings& settings);
  SshKeys(const SshKeys&) = delete;

  // cut_off: the connection broke before any key was refused.
  Progress advance();
  const std::string& tried() const { return notes_; }  // for a message: which keys, and why not
  bool has_untried() const { return has_untried_; }    // keys that `ssh` can use and we cannot

 private:
  struct Candidate {
    std::string name;
    std::string blob;  // the public key; empty: libssh2 reads it from the file
    std::string path;  // empty: the agent's
  };
  struct NotAsked {};
  struct Asked {};
  struct Refused {};
  using Signature = std::variant<NotAsked, Asked, Refused, std::string>;

  void collect();
  void collect_file(const std::string& path, bool named);
  void collect_agent();
  int attempt(const Candidate& candidate);
  std::string why_not(const Candidate& candidate) const;
  static int sign(LIBSSH2_SESSION* session, unsigned char** signature, size_t* signature_bytes,
                  const unsigned char* data, size_t data_bytes, void** self);
  int sign(unsigned char** signature, size_t* signature_bytes, std::string_view data);
  void ask_for_signature(std::string_view data);
  void note(const std::string& text);

  SshSession& session_;
  NodeAddress node_;
  SshSettings settings_;
  std::unique_ptr<SshAgent> agent_;  // null: there is none
  bool has_agent_answer_ = false;
  std::optional<std::vector<AgentKey>> agent_keys_;
  Signature signature_;  // for the candidate that is being tried
  bool collected_ = false;
  std::vector<Candidate> candidates_;
  std::size_t next_ = 0;  // as many were refused
  bool has_untried_ = false;
  std::string notes_;
};

constexpr std::size_t max_attempts = 5;  // sshd's MaxAuthTries is 6

// A blob starts with its type as a length-prefixed string.
bool has_type(const std::string& blob, std::string_view type) {
  return WireReader(blob).string().starts_with(type);
}

std::string needs_ssh(bool is_rsa) {
  return std::string(is_rsa ? " is an RSA key" : " is a key") +
         " that only the ssh program can use (`transport: openssh`)";
}

SshKeys::SshKeys(SshSession& session, const NodeAddress& node, const SshSettings& settings)
    : session_(session), node_(node), settings_(settings) {
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
  return libssh2_userauth_publickey(session_.get(), node_.user.c_str(),
                                    reinterpret_cast<const unsigned char*>(candidate.blob.data()),
                                    candidate.blob.size(), &SshKeys::sign, &self);
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
    if (const auto key = read_key_file(node_.identity_file)) {  // the agent may hold the same
      const auto is_first = [&](const Candidate& each) {
        return !each.path.empty() || each.blob == key->public_blob;
      };
      std::stable_partition(candidates_.begin(), candidates_.end(), is_first);
    }
    return;
  }
  collect_agent();
  for (const char* name : {"id_ed25519", "id_ecdsa", "id_rsa", "id_ed25519_sk", "id_ecdsa_sk"}) {
    collect_file(settings_.key_folder + "/" + name, false);
  }
  if (candidates_.empty() && notes_.empty()) note("there is no key in " + settings_.key_folder);
}

void SshKeys::collect_file(const std::string& path, bool named) {
  const auto key = read_key_file(path);
  if (!key) {
    if (named) note(path + " cannot be read");
    return;
  }
  if (key->kind == KeyKind::rsa || key->kind == KeyKind::other) {
    has_untried_ = true;
    return note(path + needs_ssh(key->kind == KeyKind::rsa));
  }
  if (key->has_passphrase) {
    return note(path + " has a passphrase and no ssh agent holds it: run ssh-add " + path);
  }
  candidates_.push_back({path, key->public_blob, path});
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

void SshKeys::note(const std::string& text) {
  notes_ += (notes_.empty() ? "" : ", ") + text;
}

class Login {
 public:
  Login(std::shared_ptr<SshSession> session, const SshTarget& target, const SshSettings& settings,
        HostKeyStore& host_keys, LoginReport& report, std::function<void(LoginResult)> done)
      : session_(std::move(session)),
        target_(target),
        host_keys_(host_keys),
        report_(report),
        keys_(std::make_unique<SshKeys>(*session_, node_, settings)),
        done_(std::make_shared<Done>(std::move(done))) {}
  ~Login() { session_->on_progress(nullptr); }

  void begin() {
    prefer_known_host_keys();
    session_->on_progress([this] { advance(); });
    session_->wake();
  }

 private:
  enum class Step { kex, auth, over };
  using Done = std::function<void(LoginResult)>;

  void prefer_known_host_keys();
  void advance();
  void exchange_keys();
  void judge_host_key();
  LoginResult host_key_failure(const HostKeyVerdict& verdict) const;
  void authenticate();
  void refused();
  void finish(LoginResult result);
  LinkFailure failure(LinkFailureKind kind, const std::string& message) const {
    return {kind, describe(node_) + ": " + message};
  }

  std::shared_ptr<SshSession> session_;
  SshTarget target_;
  const NodeAddress& node_ = target_.node;
  HostKeyStore& host_keys_;
  LoginReport& report_;
  std::unique_ptr<SshKeys> keys_;
  std::shared_ptr<Done> done_;
  Step step_ = Step::kex;
};

// sshd sends one key; ask for a kind that is on record, so that it can be compared.
void Login::prefer_known_host_keys() {
  const auto known = host_keys_.known_types(target_.host_keys, node_.host, node_.port);
  std::string first, rest;
  for (const std::string_view type : host_key_types) {
    (std::ranges::count(known, type) > 0 ? first : rest) += std::string(type) + ",";
  }
  std::string all = first + rest;
  all.pop_back();
  libssh2_session_method_pref(session_->get(), LIBSSH2_METHOD_HOSTKEY, all.c_str());
}

void Login::advance() {
  if (step_ == Step::kex) exchange_keys();
  if (step_ == Step::auth) authenticate();
}

void Login::exchange_keys() {
  const int result = libssh2_session_handshake(session_->get(), session_->handle());
  if (result == LIBSSH2_ERROR_EAGAIN) return;
  if (is_drop(result) || (result != 0 && session_->is_closed())) {
    return finish(
        LoginDropped{session_->is_closed() ? session_->close_reason() : session_->last_error()});
  }
  if (result != 0) {
    return finish(LoginNeedsOpenssh{failure(
        LinkFailureKind::wrong_build,
        "no ssh algorithm in common (" + session_->last_error() +
            "); set `transport: openssh` for this node, or allow curve25519-sha256, aes128-ctr and "
            "an ed25519 host key in its sshd")});
  }
  report_.phases.finish("kex");
  judge_host_key();
}

void Login::judge_host_key() {
  std::size_t size = 0;
  int type = 0;
  const char* key = libssh2_session_hostkey(session_->get(), &size, &type);
  const HostKeyVerdict verdict = host_keys_.check(target_.host_keys, node_.host, node_.port,
                                                  key ? std::string(key, size) : "");
  const auto* pinned = std::get_if<HostKeyPinned>(&verdict);
  if (pinned == nullptr && !std::holds_alternative<HostKeyTrusted>(verdict)) {
    return finish(host_key_failure(verdict));
  }
  if (pinned != nullptr) report_.first_contact = *pinned;
  step_ = Step::auth;
}

LoginResult Login::host_key_failure(const HostKeyVerdict& verdict) const {
  const auto failed = [&](const std::string& message) {
    return failure(LinkFailureKind::changed_host_key, message);
  };
  const std::string name =
      node_.port == 22 ? node_.host : "[" + node_.host + "]:" + std::to_string(node_.port);
  if (const auto* changed = std::get_if<HostKeyChanged>(&verdict)) {
    return failed("its host key is not the one in " + changed->file + ", line " +
                  std::to_string(changed->line) +
                  ": either the node was reinstalled or someone is in between. If you know "
                  "why, run: ssh-keygen -R '" +
                  name + "' -f '" + changed->file + "'");
  }
  if (const auto* revoked = std::get_if<HostKeyRevoked>(&verdict)) {
    return failed("its host key is revoked by " + revoked->file + ", line " +
                  std::to_string(revoked->line) + "; give the node a new one");
  }
  if (const auto* unclear = std::get_if<HostKeyUnclear>(&verdict)) {
    return LoginNeedsOpenssh{failed("its host key may be signed by an authority of " +
                                    unclear->file + ", which only the ssh program can check")};
  }
  if (const auto* unwritable = std::get_if<HostKeyUnwritable>(&verdict)) {
    return failed("its host key is unknown and could not be recorded: " + unwritable->reason);
  }
  const std::string files = joined(target_.host_keys.files);
  const bool is_muster_s = target_.host_keys.strict == HostKeyPolicy::Strict::known;
  return failed("its " + std::get<HostKeyUnknown>(verdict).key + " is in none of " +
                (files.empty() ? "the known_hosts files" : files) + ", and " +
                (is_muster_s ? "the cluster file says `unknown_hosts: refuse`"
                             : "your ssh configuration says StrictHostKeyChecking yes") +
                "; connect once with `ssh " + node_.host +
                "` and compare its fingerprint, or add its key to one of them");
}

void Login::authenticate() {
  switch (keys_->advance()) {
    case SshKeys::Progress::waiting:
      if (!session_->is_closed()) return;
      [[fallthrough]];
    case SshKeys::Progress::cut_off:
      return finish(LoginDropped{session_->close_reason()});
    case SshKeys::Progress::accepted:
      report_.phases.finish("auth");
      return finish(LoggedIn{});
    case SshKeys::Progress::refused:
      return refused();
  }
}

void Login::refused() {
  LinkFailure why = failure(LinkFailureKind::refused_key,
                            "no key is accepted for user " + node_.user + " (" + keys_->tried() +
                                "); add the public key to ~/.ssh/authorized_keys there, or name "
                                "another with identity_file or user");
  if (keys_->has_untried()) return finish(LoginNeedsOpenssh{std::move(why)});
  finish(std::move(why));
}

// Posted: the caller may destroy this, and libssh2 is still on the stack.
void Login::finish(LoginResult result) {
  step_ = Step::over;
  keys_.reset();
  boost::asio::post(session_->socket().get_executor(),
                    [weak = std::weak_ptr<Done>(done_), result = std::move(result)] {
                      if (const auto done = weak.lock()) (*done)(result);
                    });
}

}  // namespace

std::shared_ptr<void> begin_login(std::shared_ptr<SshSession> session, const SshTarget& target,
                                  const SshSettings& settings, HostKeyStore& host_keys,
                                  LoginReport& report, std::function<void(LoginResult)> done) {
  auto login = std::make_shared<Login>(std::move(session), target, settings, host_keys, report,
                                       std::move(done));
  login->begin();
  return login;
}

}  // namespace muster
