#include "launcher/transport/ssh/host_key_store.h"

#include <fcntl.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <sstream>

#include "launcher/os/fd.h"
#include "launcher/os/read_file.h"
#include "launcher/transport/link/attach_failure.h"
#include "launcher/transport/ssh/key_file.h"
#include "scheduler/text/number.h"
#include "scheduler/text/text.h"

namespace muster {
namespace {

std::string name_of(const std::string& host, int port) {
  return lower_case(port == 22 ? host : "[" + host + "]:" + std::to_string(port));
}

// The word that OpenSSH has for the kind of a key.
std::string kind_of(std::string_view key) {
  const std::string type(WireReader(key).string());
  if (type == "ssh-ed25519") return "ED25519";
  if (type == "ssh-rsa") return "RSA";
  return type.starts_with("ecdsa-") ? "ECDSA" : type;
}

// `*` any characters, `?` one. Iterative: a hostile pattern costs no more than its length squared.
bool matches(std::string_view pattern, std::string_view text) {
  std::size_t p = 0, t = 0, star = std::string_view::npos, resume = 0;
  while (t < text.size()) {
    const char wanted = p < pattern.size() ? pattern[p] : '\0';
    const char lower = static_cast<char>(std::tolower(static_cast<unsigned char>(wanted)));
    if (wanted == '*') {
      star = p++;
      resume = t;
    } else if (p < pattern.size() && (wanted == '?' || lower == text[t])) {
      ++p;
      ++t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++resume;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', p) == std::string_view::npos;
}

// |1|salt|HMAC-SHA1(salt, name)
bool is_hash_of(std::string_view hashed, const std::string& name) {
  const std::size_t middle = hashed.find('|', 3);
  if (!hashed.starts_with("|1|") || middle == std::string_view::npos) return false;
  const std::string salt = decode_base64(hashed.substr(3, middle - 3));
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned size = 0;
  HMAC(EVP_sha1(), salt.data(), static_cast<int>(salt.size()),
       reinterpret_cast<const unsigned char*>(name.data()), name.size(), digest.data(), &size);
  return decode_base64(hashed.substr(middle + 1)) ==
         std::string_view(reinterpret_cast<const char*>(digest.data()), size);
}

bool ends_with_newline(int file, off_t size) {
  char last = 0;
  return size == 0 || (::pread(file, &last, 1, size - 1) == 1 && last == '\n');
}

// Nothing: empty, a comment, or damaged.
std::optional<KnownHostsLine> parse_known_hosts_line(const std::string& text, int number) {
  std::istringstream words(text);
  KnownHostsLine line;
  line.number = number;
  if (!(words >> line.names) || line.names[0] == '#') return {};
  if (line.names[0] == '@') {
    if (line.names == "@revoked") line.marker = KnownHostsLine::Marker::revoked;
    if (line.names == "@cert-authority") line.marker = KnownHostsLine::Marker::authority;
    if (line.marker == KnownHostsLine::Marker::none || !(words >> line.names)) return {};
  }
  if (!(words >> line.key_type >> line.key)) return {};
  return line;
}

// `name` in lower case: "host", or "[host]:port" where the port is not 22.
bool is_about(const KnownHostsLine& line, const std::string& name) {
  if (line.names[0] == '|') return is_hash_of(line.names, name);
  bool found = false;
  for (std::string_view rest = line.names; !rest.empty();) {
    const std::string_view pattern = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(rest.size(), pattern.size() + 1));
    if (!pattern.starts_with('!')) {
      found |= matches(pattern, name);
    } else if (matches(pattern.substr(1), name)) {
      return false;
    }
  }
  return found;
}

std::string host_key_text(std::string_view key) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned size = 0;
  ::EVP_Digest(key.data(), key.size(), digest.data(), &size, ::EVP_sha256(), nullptr);
  std::string sum = encode_base64({reinterpret_cast<const char*>(digest.data()), size});
  sum.erase(sum.find_last_not_of('=') + 1);
  return kind_of(key) + " key SHA256:" + sum;
}

}  // namespace

std::string first_contact_text(const NodeAddress& node, const HostKeyPinned& pinned) {
  return "first contact with " + describe(node) + ": its " + pinned.key + " is recorded in " +
         pinned.file;
}

std::vector<KnownHostsFile*> HostKeyStore::files(const HostKeyPolicy& policy) {
  std::vector<std::string> paths = policy.files;
  const bool counts_pinned =
      policy.strict == HostKeyPolicy::Strict::pin || policy.strict == HostKeyPolicy::Strict::known;
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

KnownHostsFile::Stamp KnownHostsFile::stamp() const {
  std::error_code error;
  Stamp stamp{std::filesystem::last_write_time(path_, error), 0};
  if (!error) stamp.second = std::filesystem::file_size(path_, error);
  return stamp;
}

void KnownHostsFile::refresh() {
  const Stamp now = stamp();
  if (read_at_ == now) return;
  read_at_ = now;
  lines_.clear();
  line_count_ = 0;
  std::istringstream file(text_of_file(path_));
  for (std::string text; std::getline(file, text);) {
    if (auto line = parse_known_hosts_line(text, ++line_count_)) lines_.push_back(std::move(*line));
  }
}

std::vector<KnownHostsLine> KnownHostsFile::lines_about(const std::string& name) {
  refresh();
  std::vector<KnownHostsLine> about;
  std::ranges::copy_if(lines_, std::back_inserter(about),
                       [&](const KnownHostsLine& line) { return is_about(line, name); });
  return about;
}

bool KnownHostsFile::append(const std::string& line) {
  std::error_code ignored;  // open says it
  std::filesystem::create_directories(std::filesystem::path(path_).parent_path(), ignored);
  const Fd file(::open(path_.c_str(), O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC, 0600));
  if (!file || ::flock(file.get(), LOCK_EX) != 0) return false;
  struct stat facts {};
  if (::fstat(file.get(), &facts) != 0) return false;
  const std::string text = (ends_with_newline(file.get(), facts.st_size) ? "" : "\n") + line + "\n";
  if (!write_all(file.get(), text)) {
    // Half a line would spoil the next one, too.
    const int error = errno;
    [[maybe_unused]] const int cut = ::ftruncate(file.get(), facts.st_size);
    errno = error;
    return false;
  }
  // A thousand new hosts must not read the file a thousand times; a stranger's line makes us.
  const Stamp now = stamp();
  if (read_at_ && now.second == read_at_->second + line.size() + 1) {
    if (auto known = parse_known_hosts_line(line, ++line_count_)) lines_.push_back(*known);
    read_at_ = now;
  }
  return true;
}

}  // namespace muster
