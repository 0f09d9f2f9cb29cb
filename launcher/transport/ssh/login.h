// From a TCP connection to an authenticated session, on libssh2.
//
//   kex ──► host key ──► agent ──► key files ──► in
//    │          │                      │
//    ▼          ▼                      ▼
//  dropped   changed key       refused (perhaps only RSA keys, which libssh2 1.10 cannot use)
//
// Private to launcher/transport; one thread.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <variant>

#include "launcher/transport/link/transport.h"
#include "launcher/transport/ssh/host_key_store.h"
#include "launcher/transport/ssh/session.h"
#include "scheduler/model/compute.h"
#include "scheduler/model/link.h"

namespace muster {

struct LoggedIn {};
// What a login tells besides its result; goes on where it is tried again.
struct LoginReport {
  PhaseTimer phases;                           // kex and auth
  std::optional<HostKeyPinned> first_contact;  // with the host
};
struct LoginDropped {  // before authentication, as an overloaded sshd does: try again
  std::string reason;
};
struct LoginNeedsOpenssh {  // libssh2 cannot, `ssh` might
  LinkFailure otherwise;
};
using LoginResult = std::variant<LoggedIn, LoginDropped, LoginNeedsOpenssh, LinkFailure>;

// A login goes on as long as somebody holds it. `target` has its user filled in; `host_keys` and
// `report` outlive the login.
std::shared_ptr<void> begin_login(std::shared_ptr<SshSession> session, const SshTarget& target,
                                  const SshSettings& settings, HostKeyStore& host_keys,
                                  LoginReport& report, std::function<void(LoginResult)> done);

}  // namespace muster
