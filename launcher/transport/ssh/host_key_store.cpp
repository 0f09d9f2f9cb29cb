#include "launcher/transport/ssh/host_key_store.h"

#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <cstring>

#include "launcher/transport/link/attach_failure.h"
#include "launcher/transport/ssh/key_file.h"
#include "scheduler/text/number.h"

namespace muster {
namespace {

std::string name_of(const std::string& host, int port) {
  std::string name = port == 22 ? host : "[" + host + "]:" + std::to_string(port);
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return name;
}

// The word that OpenSSH has for the kind of a key.
std::string kind_of(std::string_view key) {
  const std::string type(WireReader(key).string());
  if (type == "ssh-ed25519") return "ED25519";
  if (type == "ssh-rsa") return "RSA";
  return type.starts_with("ecdsa-") ? "ECDSA" : type;
}

}  // namespace

std::string host_key_text(std::string_view key) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned size = 0;
  ::EVP_Digest(key.data(), key.size(), digest.data(), &size, ::EVP_sha256(), nullptr);
  std::string sum = encode_base64({reinterpret_cast<const char*>(digest.data()), size});
  sum.erase(sum.find_last_not_of('=') + 1);
  return kind_of(key) + " key SHA256:" + sum;
}

std::string first_contact_text(const NodeAddress& node, const HostKeyPinned& pinned) {
  return "first contact with " + describe(node) + ": its " + pinned.key + " is recorded in " +
         pinned.file;
}

std::vector<KnownHostsFile*> HostKeyStore::files(const HostKeyPolicy& policy) {
  std::vector<std::string> paths = policy.files;
  const bool counts_pinned = policy.strict == HostKeyPolicy::Strict::pin ||
                             policy.strict == HostKeyPolicy::Strict::known;
  if (counts_pinned) paths.push_back(own_file_);
  std::vector<KnownHostsFile*> files;
  for (const std::string& path : paths) {
    files.push_back(&files_.try_emplace(path, path).first->second);
  }
  return files;
}

HostKeyVerdict HostKeyStore::check(const HostKeyPolicy& policy, const std::string& host, int port,
                                   std::string_view key) {
  using Marker = KnownHostsLine::Marker;
  const std::string offered = encode_base64(key);
  bool is_on_record = false;
  std::optional<HostKeyChanged> other;
  std::optional<HostKeyUnclear> unclear;
  for (KnownHostsFile* file : files(policy)) {
    for (const KnownHostsLine& line : file->lines_about(name_of(host, port))) {
      const bool is_same = line.key == offered;
      if (line.marker == Marker::revoked && is_same) {
        return HostKeyRevoked{file->path(), line.number};
      }
      if (line.marker == Marker::authority) unclear = HostKeyUnclear{file->path()};
      if (line.marker != Marker::none) continue;
      is_on_record |= is_same;
      // Of whatever kind: a stranger must not get in by offering a kind not on record.
      if (!is_same && !other) other = HostKeyChanged{file->path(), line.number};
    }
    if (port == 22) continue;
    // A line without the port vouches for a key, as with ssh, but does not forbid another.
    for (const KnownHostsLine& line : file->lines_about(name_of(host, 22))) {
      is_on_record |= line.marker == Marker::none && line.key == offered;
    }
  }
  if (is_on_record || policy.strict == HostKeyPolicy::Strict::no) return HostKeyTrusted{};
  if (other) return *other;
  if (unclear) return *unclear;
  if (policy.strict != HostKeyPolicy::Strict::pin) return HostKeyUnknown{host_key_text(key)};
  KnownHostsFile& own = files_.at(own_file_);
  const std::string type(WireReader(key).string());
  if (std::find(host_key_types.begin(), host_key_types.end(), type) == host_key_types.end()) {
    return HostKeyUnwritable{"it is of a kind that muster does not know"};
  }
  if (own.append(name_of(host, port) + " " + type + " " + offered)) {
    return HostKeyPinned{host_key_text(key), own_file_};
  }
  return HostKeyUnwritable{own_file_ + ": " + std::strerror(errno)};
}

std::optional<HostKeyPinned> HostKeyStore::pinned(const std::string& host, int port) {
  KnownHostsFile& own = files_.try_emplace(own_file_, own_file_).first->second;
  for (const KnownHostsLine& line : own.lines_about(name_of(host, port))) {
    if (line.marker != KnownHostsLine::Marker::none) continue;
    return HostKeyPinned{host_key_text(decode_base64(line.key)), own_file_};
  }
  return std::nullopt;
}

std::vector<std::string> HostKeyStore::known_types(const HostKeyPolicy& policy,
                                                   const std::string& host, int port) {
  std::vector<std::string> types;
  for (KnownHostsFile* file : files(policy)) {
    for (const KnownHostsLine& line : file->lines_about(name_of(host, port))) {
      if (line.marker != KnownHostsLine::Marker::none) continue;
      if (std::find(types.begin(), types.end(), line.key_type) == types.end()) {
        types.push_back(line.key_type);
      }
    }
  }
  return types;
}

}  // namespace muster
