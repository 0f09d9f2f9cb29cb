// Which host key belongs to which host: the user's known_hosts, only read, and muster's own file,
// where a host seen for the first time is pinned. Files are read again when they change. One
// thread.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace muster {

struct HostKeyTrusted {};
struct HostKeyChanged {
  std::string file;
  int line = 0;
};
struct HostKeyUnwritable {  // unknown, and it could not be pinned
  std::string reason;
};
struct HostKeyUnclear {  // unknown, but the user's file has lines that only the ssh program reads
  std::string file;
};
using HostKeyVerdict =
    std::variant<HostKeyTrusted, HostKeyChanged, HostKeyUnwritable, HostKeyUnclear>;

class HostKeyStore {
 public:
  HostKeyStore(std::string user_file, std::string own_file);
  ~HostKeyStore();

  // `key` is the raw blob and `type` its LIBSSH2_HOSTKEY_TYPE_*. Pins the key of an unknown host.
  HostKeyVerdict check(const std::string& host, int port, std::string_view key, int type);

  // Names of the key types on record for a host, such as "ssh-ed25519": the ones to ask it for.
  std::vector<std::string> known_types(const std::string& host, int port);

 private:
  class File;
  std::unique_ptr<File> user_;
  std::unique_ptr<File> own_;
};

}  // namespace muster
