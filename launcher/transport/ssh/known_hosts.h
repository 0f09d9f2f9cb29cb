// One known_hosts file of OpenSSH: which of its lines are about a host. Knows hashed names,
// patterns and markers. Read again when the file changes. One thread.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace muster {

struct KnownHostsLine {
  enum class Marker { none, revoked, authority };
  Marker marker = Marker::none;
  std::string names;     // as written: patterns with commas, or one hashed name
  std::string key_type;  // "ssh-ed25519"
  std::string key;       // base64
  int number = 0;        // from 1
};

// Nothing: empty, a comment, or damaged.
std::optional<KnownHostsLine> parse_known_hosts_line(const std::string& text, int number);

// `name` in lower case: "host", or "[host]:port" where the port is not 22.
bool is_about(const KnownHostsLine& line, const std::string& name);

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

}  // namespace muster
