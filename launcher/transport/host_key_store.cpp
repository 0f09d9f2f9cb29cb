#include "launcher/transport/host_key_store.h"

#include <fcntl.h>
#include <libssh2.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <utility>

#include "launcher/os/fd.h"

namespace muster {
namespace {

struct KeyType {
  int hostkey;    // LIBSSH2_HOSTKEY_TYPE_*
  int knownhost;  // LIBSSH2_KNOWNHOST_KEY_*
  const char* name;
};

constexpr KeyType key_types[] = {
    {LIBSSH2_HOSTKEY_TYPE_ED25519, LIBSSH2_KNOWNHOST_KEY_ED25519, "ssh-ed25519"},
    {LIBSSH2_HOSTKEY_TYPE_ECDSA_256, LIBSSH2_KNOWNHOST_KEY_ECDSA_256, "ecdsa-sha2-nistp256"},
    {LIBSSH2_HOSTKEY_TYPE_ECDSA_384, LIBSSH2_KNOWNHOST_KEY_ECDSA_384, "ecdsa-sha2-nistp384"},
    {LIBSSH2_HOSTKEY_TYPE_ECDSA_521, LIBSSH2_KNOWNHOST_KEY_ECDSA_521, "ecdsa-sha2-nistp521"},
    {LIBSSH2_HOSTKEY_TYPE_RSA, LIBSSH2_KNOWNHOST_KEY_SSHRSA, "ssh-rsa"},
};

const KeyType* type_of(int hostkey) {
  for (const KeyType& type : key_types) {
    if (type.hostkey == hostkey) return &type;
  }
  return nullptr;
}

constexpr int raw_names = LIBSSH2_KNOWNHOST_TYPE_PLAIN | LIBSSH2_KNOWNHOST_KEYENC_RAW;

// @revoked, @cert-authority, *.cluster, !other: libssh2 knows none of these.
bool is_pattern(const std::string& line) {
  const std::string names = line.substr(0, line.find_first_of(" \t"));
  return line[0] == '@' || names.find_first_of("*?!") != std::string::npos;
}

// libssh2 1.10 skips lines whose host has a name of one or two characters, such as n1.
std::string with_long_name(const std::string& line) {
  const std::size_t length = line.find_first_of(" \t");
  if (length == std::string::npos || length > 2) return line;
  return "[" + line.substr(0, length) + "]:22" + line.substr(length);
}

std::string base64(std::string_view bytes) {
  constexpr char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    unsigned bits = 0;
    const std::size_t count = std::min<std::size_t>(3, bytes.size() - i);
    for (std::size_t j = 0; j < 3; ++j) {
      bits = bits << 8 | (j < count ? static_cast<unsigned char>(bytes[i + j]) : 0u);
    }
    for (std::size_t j = 0; j < 4; ++j) {
      text += j <= count ? alphabet[bits >> (18 - 6 * j) & 63] : '=';
    }
  }
  return text;
}

}  // namespace

// One known_hosts file in libssh2's form, with the line each entry came from.
class HostKeyStore::File {
 public:
  explicit File(std::string path) : path_(std::move(path)) {}
  ~File() { clear(); }

  // Nothing: no entry for the host with a key of this type.
  std::optional<HostKeyVerdict> check(const std::string& host, int port, std::string_view key,
                                      int knownhost_type) {
    refresh();
    libssh2_knownhost* entry = nullptr;
    const int result = libssh2_knownhost_checkp(hosts_, host.c_str(), port, key.data(), key.size(),
                                                raw_names | knownhost_type, &entry);
    if (result == LIBSSH2_KNOWNHOST_CHECK_MATCH) return HostKeyTrusted{};
    if (result == LIBSSH2_KNOWNHOST_CHECK_MISMATCH) {
      return HostKeyChanged{path_, entry == nullptr ? 0 : lines_[entry->node]};
    }
    return {};
  }

  // A key nobody has: libssh2 answers mismatch where there is an entry of the type.
  int line_with_type(const std::string& host, int port, const KeyType& type) {
    const auto verdict = check(host, port, "no key", type.knownhost);
    const auto* changed = verdict ? std::get_if<HostKeyChanged>(&*verdict) : nullptr;
    return changed == nullptr ? 0 : changed->line;
  }

  HostKeyVerdict pin(const std::string& host, int port, std::string_view key, const KeyType& type);
  const std::string& path() const { return path_; }
  bool has_patterns() const { return has_patterns_; }

 private:
  using Stamp = std::pair<std::filesystem::file_time_type, std::uintmax_t>;

  void clear() {
    if (hosts_ != nullptr) libssh2_knownhost_free(hosts_);
    if (session_ != nullptr) libssh2_session_free(session_);
    hosts_ = nullptr;
    session_ = nullptr;
    lines_.clear();
  }

  Stamp stamp() const;
  void refresh();
  void add_line(const std::string& text);

  std::string path_;
  LIBSSH2_SESSION* session_ = nullptr;  // libssh2 wants one for its allocator
  LIBSSH2_KNOWNHOSTS* hosts_ = nullptr;
  std::map<void*, int> lines_;
  int line_count_ = 0;
  bool has_patterns_ = false;
  libssh2_knownhost* last_ = nullptr;
  std::optional<Stamp> read_at_;
};

HostKeyStore::File::Stamp HostKeyStore::File::stamp() const {
  std::error_code error;
  Stamp stamp{std::filesystem::last_write_time(path_, error), 0};
  if (!error) stamp.second = std::filesystem::file_size(path_, error);
  return stamp;
}

void HostKeyStore::File::refresh() {
  const Stamp now = stamp();
  if (hosts_ != nullptr && read_at_ == now) return;
  clear();
  session_ = libssh2_session_init();
  hosts_ = libssh2_knownhost_init(session_);
  last_ = nullptr;
  line_count_ = 0;
  has_patterns_ = false;
  read_at_ = now;
  std::ifstream file(path_);
  for (std::string line; std::getline(file, line);) add_line(line);
}

void HostKeyStore::File::add_line(const std::string& text) {
  ++line_count_;
  if (text.empty() || text[0] == '#') return;
  if (is_pattern(text)) {
    has_patterns_ = true;
    return;
  }
  const std::string line = with_long_name(text);
  libssh2_knownhost_readline(hosts_, line.c_str(), line.size(), LIBSSH2_KNOWNHOST_FILE_OPENSSH);
  libssh2_knownhost* entry = last_;
  while (libssh2_knownhost_get(hosts_, &entry, last_) == 0) {
    lines_[entry->node] = line_count_;
    last_ = entry;
  }
}

HostKeyVerdict HostKeyStore::File::pin(const std::string& host, int port, std::string_view key,
                                       const KeyType& type) {
  std::error_code ignored;
  std::filesystem::create_directories(std::filesystem::path(path_).parent_path(), ignored);
  const std::string name = port == 22 ? host : "[" + host + "]:" + std::to_string(port);
  const std::string line = name + " " + type.name + " " + base64(key) + "\n";
  Fd file(::open(path_.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600));
  // One write of one line: other processes append to this file too.
  if (file.get() < 0 ||
      ::write(file.get(), line.data(), line.size()) != static_cast<ssize_t>(line.size())) {
    return HostKeyUnwritable{path_ + ": " + std::strerror(errno)};
  }
  // A thousand new hosts must not read the file a thousand times; a stranger's line makes us read
  // it.
  if (const Stamp now = stamp(); read_at_ && now.second == read_at_->second + line.size()) {
    add_line(line.substr(0, line.size() - 1));
    read_at_ = now;
  }
  return HostKeyTrusted{};
}

HostKeyStore::HostKeyStore(std::string user_file, std::string own_file)
    : user_(std::make_unique<File>(std::move(user_file))),
      own_(std::make_unique<File>(std::move(own_file))) {}

HostKeyStore::~HostKeyStore() = default;

HostKeyVerdict HostKeyStore::check(const std::string& host, int port, std::string_view key,
                                   int type_number) {
  const KeyType* type = type_of(type_number);
  if (type == nullptr) return HostKeyUnwritable{"the host key is of a kind muster does not know"};
  for (File* file : {user_.get(), own_.get()}) {
    if (const auto verdict = file->check(host, port, key, type->knownhost)) return *verdict;
  }
  // Known by another kind of key: a stranger must not get in by offering a kind not on record.
  for (File* file : {user_.get(), own_.get()}) {
    for (const KeyType& other : key_types) {
      const int line = file->line_with_type(host, port, other);
      if (line != 0) return HostKeyChanged{file->path(), line};
    }
  }
  if (user_->has_patterns()) return HostKeyUnclear{user_->path()};
  return own_->pin(host, port, key, *type);
}

std::vector<std::string> HostKeyStore::known_types(const std::string& host, int port) {
  std::vector<std::string> names;
  for (const KeyType& type : key_types) {
    if (user_->line_with_type(host, port, type) != 0 ||
        own_->line_with_type(host, port, type) != 0) {
      names.emplace_back(type.name);
    }
  }
  return names;
}

}  // namespace muster
