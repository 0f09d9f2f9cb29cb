// The keys of one login, tried one after the other: those of the ssh agent, then key files; a key
// file that the cluster file names goes first. Keys for which libssh2 1.10 is too old are skipped
// and remembered: it signs with RSA and SHA-1 only, which sshd refuses, and knows no hardware keys.
// Keys with a passphrase count when the agent holds them. Private to launcher/transport; one
// thread.
#pragma once

#include <libssh2.h>

#include <string>
#include <vector>

#include "launcher/transport/key_file.h"
#include "launcher/transport/ssh_settings.h"
#include "scheduler/model/compute.h"

namespace muster {

class SshKeys {
 public:
  enum class Progress { waiting, accepted, refused, cut_off };

  SshKeys(LIBSSH2_SESSION* session, const NodeAddress& node, const SshSettings& settings);
  SshKeys(const SshKeys&) = delete;
  ~SshKeys();

  // cut_off: the connection broke before any key was refused.
  Progress advance();
  std::string tried() const;                         // for a message: which keys, and why not
  bool has_untried() const { return has_untried_; }  // keys that `ssh` can use and we cannot

 private:
  struct Candidate {
    std::string name;
    libssh2_agent_publickey* agent_key = nullptr;  // else a file
    std::string path;
  };

  void collect(const NodeAddress& node, const SshSettings& settings);
  void collect_file(const std::string& path, bool named);
  void collect_agent(const std::string& socket);
  void prefer_agent_key(const std::string& blob);
  int attempt(const Candidate& candidate);
  void note(const std::string& text);

  LIBSSH2_SESSION* session_;
  LIBSSH2_AGENT* agent_ = nullptr;
  std::string user_;
  bool collected_ = false;
  NodeAddress node_;
  SshSettings settings_;
  std::vector<Candidate> candidates_;
  std::size_t next_ = 0;  // as many were refused
  bool has_untried_ = false;
  std::string notes_;
};

}  // namespace muster
