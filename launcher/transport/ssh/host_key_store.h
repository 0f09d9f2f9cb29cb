// Which host key belongs to which host: the known_hosts files of the user and the system, only
// read, and muster's own file, where a host seen for the first time is pinned. One thread.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "scheduler/model/compute.h"

namespace muster {

// The kinds of host keys that libssh2 1.10 can check, the preferred ones first.
inline constexpr std::array<std::string_view, 5> host_key_types{
    "ssh-ed25519", "ecdsa-sha2-nistp256", "ecdsa-sha2-nistp384", "ecdsa-sha2-nistp521", "ssh-rsa"};

// What the user's ssh configuration says about host keys: StrictHostKeyChecking,
// UserKnownHostsFile, GlobalKnownHostsFile. `ask` pins, for there is nobody to ask. `known`: the
// cluster file lets no unknown host in, whatever the configuration says.
struct HostKeyPolicy {
  enum class Strict { yes, known, pin, no };
  Strict strict = Strict::pin;
  std::vector<std::string> files;
  bool operator==(const HostKeyPolicy&) const = default;
};

struct HostKeyTrusted {};
struct HostKeyPinned {  // unknown, and recorded: the first contact with the host
  std::string key;      // "ED25519 key SHA256:…", as ssh-keygen -l names it
  std::string file;
};
struct HostKeyChanged {
  std::string file;
  int line = 0;
};
struct HostKeyRevoked {
  std::string file;
  int line = 0;
};
struct HostKeyUnknown {  // and the policy is to let no unknown host in
  std::string key;
};
struct HostKeyUnwritable {  // unknown, and it could not be pinned
  std::string reason;
};
struct HostKeyUnclear {  // unknown, but an authority may have signed it: the ssh program can tell
  std::string file;
};
using HostKeyVerdict = std::variant<HostKeyTrusted, HostKeyPinned, HostKeyChanged, HostKeyRevoked,
                                    HostKeyUnknown, HostKeyUnwritable, HostKeyUnclear>;

// "first contact with h01 (10.0.0.1): its ED25519 key SHA256:… is recorded in …"
std::string first_contact_text(const NodeAddress& node, const HostKeyPinned& pinned);

// Of a known_hosts file of OpenSSH.
struct KnownHostsLine {
  enum class Marker { none, revoked, authority };
  Marker marker = Marker::none;
  std::string names;     // as written: patterns with commas, or one hashed name
  std::string key_type;  // "ssh-ed25519"
  std::string key;       // base64
  int number = 0;        // from 1
};

// Which lines of such a file are about a host. Knows hashed names, patterns and markers. Read again
// when the file changes.
class KnownHostsFile {
 public:
  explicit KnownHostsFile(std::string path) : path_(std::move(path)) {}
  const std::string& path() const { return path_; }

  // A file that is not there has no lines.
  std::vector<KnownHostsLine> lines_about(const std::string& name);

  // Appends a whole line or leaves the file as it was; false leaves errno.
  bool append(const std::string& line);

 private:
  using Stamp = std::pair<std::filesystem::file_time_type, std::uintmax_t>;
  Stamp stamp() const;
  void refresh();

  std::string path_;
  std::optional<Stamp> read_at_;
  std::vector<KnownHostsLine> lines_;
  int line_count_ = 0;
};

class HostKeyStore {
 public:
  explicit HostKeyStore(std::string own_file) : own_file_(std::move(own_file)) {}

  // `key` is the raw blob. Pins the key of an unknown host where the policy is to pin.
  HostKeyVerdict check(const HostKeyPolicy& policy, const std::string& host, int port,
                       std::string_view key);

  // What muster's own file has for a host.
  std::optional<HostKeyPinned> pinned(const std::string& host, int port);

  // Names of the key types on record for a host, such as "ssh-ed25519": the ones to ask it for.
  std::vector<std::string> known_types(const HostKeyPolicy& policy, const std::string& host,
                                       int port);

 private:
  std::vector<KnownHostsFile*> files(const HostKeyPolicy& policy);

  std::string own_file_;
  std::map<std::string, KnownHostsFile> files_;
};

// What the ssh transports are told from outside besides the limits of a target (ConnectSettings):
// who logs in, and where keys are.
struct SshSettings {
  std::uint64_t jitter_seed = 1;

  std::string user;             // login name when the cluster file has none
  std::string key_folder;       // ~/.ssh: id_ed25519, id_ecdsa
  std::string agent_socket;     // SSH_AUTH_SOCK; empty: no agent
  HostKeyPolicy host_keys;      // where the ssh configuration says nothing
  std::string own_known_hosts;  // muster's, unknown hosts are pinned here
};

// A node, with what the user's ssh configuration adds to the cluster file.
struct SshTarget {
  NodeAddress node;
  HostKeyPolicy host_keys;
  std::string host_name{};  // by which ssh knows it; empty: the node's host
};

}  // namespace muster
