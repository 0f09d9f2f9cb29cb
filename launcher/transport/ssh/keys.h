// The keys of one login, tried one after the other: those of the ssh agent, then key files; a key
// file that the cluster file names goes first. Keys for which libssh2 1.10 is too old are skipped
// and remembered: it signs with RSA and SHA-1 only, which sshd refuses, and knows no hardware keys.
// Keys with a passphrase count when the agent holds them. Private to launcher/transport; one
// thread.
#pragma once

#include <libssh2.h>

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "launcher/transport/ssh/agent.h"
#include "launcher/transport/ssh/key_file.h"
#include "launcher/transport/ssh/session.h"
#include "launcher/transport/ssh/settings.h"
#include "scheduler/model/compute.h"

namespace muster {

class SshKeys {
 public:
  enum class Progress { waiting, accepted, refused, cut_off };

  // Asks the agent for its keys at once; `session`, which outlives this, is woken at its answers.
  SshKeys(SshSession& session, const NodeAddress& node, const SshSettings& settings);
  SshKeys(const SshKeys&) = delete;

  // cut_off: the connection broke before any key was refused.
  Progress advance();
  std::string tried() const;                         // for a message: which keys, and why not
  bool has_untried() const { return has_untried_; }  // keys that `ssh` can use and we cannot

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
  void prefer_agent_key(const std::string& blob);
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

}  // namespace muster
