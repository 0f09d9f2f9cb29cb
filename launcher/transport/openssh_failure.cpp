#include "launcher/transport/openssh_failure.h"

#include <algorithm>
#include <array>
#include <string>

#include "launcher/transport/link/attach_failure.h"

namespace muster {
namespace {

constexpr int ssh_itself_failed = 255;

struct Pattern {
  std::string_view text;
  LinkFailureKind kind;
  std::string_view cure;
};

// The first that occurs counts.
constexpr std::array patterns{
    Pattern{"IDENTIFICATION HAS CHANGED", LinkFailureKind::changed_host_key,
            "either the node was installed anew or someone is in between; if you know why, remove "
            "the old key with ssh-keygen -R"},
    Pattern{"Host key verification failed", LinkFailureKind::changed_host_key,
            "compare the node's host key with the one on record"},
    Pattern{"REVOKED", LinkFailureKind::changed_host_key, "the node offers a revoked host key"},
    Pattern{"Could not resolve hostname", LinkFailureKind::unknown_host,
            "check its spelling in the cluster file, or give an address"},
    Pattern{"Permission denied (", LinkFailureKind::refused_key,
            "add your public key to ~/.ssh/authorized_keys there, or name another with "
            "identity_file or user"},
    Pattern{"Too many authentication failures", LinkFailureKind::refused_key,
            "name the right key with identity_file"},
    Pattern{"Unable to negotiate", LinkFailureKind::wrong_build,
            "the ssh programs of both sides have no algorithm in common"},
    Pattern{"Bad configuration option", LinkFailureKind::shell, "correct your ssh configuration"},
    Pattern{"Bad owner or permissions", LinkFailureKind::shell, "correct your ssh configuration"},
    Pattern{"Connection refused", LinkFailureKind::unreachable, "does sshd run there?"},
    Pattern{"No route to host", LinkFailureKind::unreachable, "check the network"},
    Pattern{"Network is unreachable", LinkFailureKind::unreachable, "check the network"},
    Pattern{"timed out", LinkFailureKind::unreachable,
            "is the node on, and is there a firewall in between?"},
};

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

}  // namespace

bool openssh_was_dropped(const RemoteExit& exit, std::string_view errors) {
  if (exit.status != ssh_itself_failed) return false;
  const bool during_handshake =
      contains(errors, "kex_exchange_identification") || contains(errors, "banner exchange") ||
      contains(errors, "Connection closed by") || contains(errors, "Connection reset by");
  return during_handshake && !contains(errors, "Permission denied") &&
         !contains(errors, "timed out");
}

LinkFailure openssh_failure(const NodeAddress& node, const RemoteExit& exit,
                            std::string_view output, std::string_view errors) {
  if (!exit.status) {
    return {LinkFailureKind::shell,
            describe(node) + ": " + exit.reason + "; install the OpenSSH client on this machine"};
  }
  if (*exit.status != ssh_itself_failed) return attach_failure(node, exit, false, output, errors);
  const auto found = std::find_if(patterns.begin(), patterns.end(), [&](const Pattern& pattern) {
    return contains(errors, pattern.text);
  });
  const std::string said = describe(node) + ": ssh said: " + last_line(errors);
  if (found == patterns.end()) {
    return {LinkFailureKind::unreachable, said + "; try the same with `ssh " + node.host + "`"};
  }
  return {found->kind, said + "; " + std::string(found->cure)};
}

}  // namespace muster
