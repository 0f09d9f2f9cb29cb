#include "launcher/transport/ssh/login.h"

#include <libssh2.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <utility>

#include "launcher/transport/link/attach_failure.h"
#include "launcher/transport/ssh/keys.h"

namespace muster {
namespace {

// Before authentication a lost connection is sshd's way to say that it is busy.
bool is_drop(int error) {
  return error == LIBSSH2_ERROR_SOCKET_DISCONNECT || error == LIBSSH2_ERROR_SOCKET_RECV ||
         error == LIBSSH2_ERROR_SOCKET_SEND || error == LIBSSH2_ERROR_BANNER_RECV ||
         error == LIBSSH2_ERROR_BANNER_SEND;
}

class Login final : public SshLogin {
 public:
  Login(std::shared_ptr<SshSession> session, const SshTarget& target, const SshSettings& settings,
        HostKeyStore& host_keys, LoginReport& report, std::function<void(LoginResult)> done)
      : session_(std::move(session)),
        target_(target),
        host_keys_(host_keys),
        report_(report),
        keys_(std::make_unique<SshKeys>(*session_, node_, settings)),
        done_(std::make_shared<Done>(std::move(done))) {}
  ~Login() override { session_->on_progress(nullptr); }

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
  const auto is_known = [&](std::string_view type) {
    return std::find(known.begin(), known.end(), type) != known.end();
  };
  std::string first, rest;
  for (const std::string_view type : host_key_types) {
    (is_known(type) ? first : rest) += std::string(type) + ",";
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
  std::string files;
  for (const std::string& file : target_.host_keys.files) {
    files += (files.empty() ? "" : ", ") + file;
  }
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

std::unique_ptr<SshLogin> begin_login(std::shared_ptr<SshSession> session, const SshTarget& target,
                                      const SshSettings& settings, HostKeyStore& host_keys,
                                      LoginReport& report, std::function<void(LoginResult)> done) {
  auto login = std::make_unique<Login>(std::move(session), target, settings, host_keys, report,
                                       std::move(done));
  login->begin();
  return login;
}

}  // namespace muster
