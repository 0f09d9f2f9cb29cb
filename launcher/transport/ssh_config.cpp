#include "launcher/transport/ssh_config.h"

#include <algorithm>
#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <cctype>
#include <cstdlib>
#include <deque>
#include <fstream>
#include <iterator>
#include <map>
#include <sstream>
#include <utility>

#include <glob.h>

#include "launcher/transport/child_process.h"
#include "launcher/transport/key_file.h"

namespace muster {
namespace {

constexpr std::size_t max_queries_at_once = 4;  // a process of 5 ms each, on a shared login node

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

// "Keyword value…" or "Keyword=value"; the keyword in lower case.
std::pair<std::string, std::string> directive(std::string line) {
  const std::size_t begin = line.find_first_not_of(" \t");
  if (begin == std::string::npos) return {};
  const std::size_t end = line.find_first_of(" \t=", begin);
  const std::string keyword = lower(line.substr(begin, end == line.npos ? end : end - begin));
  const std::size_t value = end == line.npos ? end : line.find_first_not_of(" \t=", end);
  if (value == line.npos) return {keyword, ""};
  line.erase(line.find_last_not_of(" \t\r") + 1);
  return {keyword, line.substr(value)};
}

bool matches_no_file(const std::string& pattern) {
  glob_t found{};
  const bool none = ::glob(pattern.c_str(), GLOB_TILDE, nullptr, &found) == GLOB_NOMATCH;
  ::globfree(&found);
  return none;
}

bool is_set(const std::string& value) {
  return !value.empty() && lower(value) != "none";
}

std::string expand_home(const std::string& path) {
  const char* home = std::getenv("HOME");
  return path.starts_with("~/") && home != nullptr ? home + path.substr(1) : path;
}

std::string read_all(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

}  // namespace

SshHostConfig parse_ssh_config(std::string_view dump) {
  SshHostConfig config;
  std::istringstream lines{std::string(dump)};
  for (std::string line; std::getline(lines, line);) {
    const auto [keyword, value] = directive(line);
    if (keyword == "hostname") config.host_name = value;
    if (keyword == "user") config.user = value;
    if (keyword == "port") config.port = static_cast<int>(std::strtol(value.c_str(), nullptr, 10));
    if (keyword == "identityfile") config.identity_files.push_back(expand_home(value));
    if (keyword == "proxyjump" || keyword == "proxycommand") {
      config.goes_through_proxy |= is_set(value);
    }
    if (keyword == "certificatefile") config.has_certificate |= is_set(value);
    if (keyword == "gssapiauthentication") config.allows_kerberos = value == "yes";
    if (keyword == "hostkeyalias" || keyword == "identityagent" || keyword == "pkcs11provider") {
      config.has_other_needs |= is_set(value) && value != "SSH_AUTH_SOCK";
    }
  }
  return config;
}

bool is_plain_ssh_config(std::string_view text) {
  constexpr std::array harmless{"sendenv", "hashknownhosts", "gssapiauthentication",
                                "forwardx11trusted"};
  std::istringstream lines{std::string(text)};
  for (std::string line; std::getline(lines, line);) {
    const auto [keyword, value] = directive(line);
    if (keyword.empty() || keyword[0] == '#') continue;
    if (keyword == "host" && value == "*") continue;
    if (keyword == "include" && matches_no_file(value)) continue;
    if (std::find(harmless.begin(), harmless.end(), keyword) == harmless.end()) return false;
  }
  return true;
}

std::string needs_openssh(const SshHostConfig& config, bool has_kerberos_ticket) {
  if (config.goes_through_proxy) return "it is reached through a ProxyJump or ProxyCommand";
  if (config.has_certificate) return "it wants a certificate";
  if (config.allows_kerberos && has_kerberos_ticket) return "there is a Kerberos ticket for it";
  if (config.has_other_needs) return "its ssh configuration needs the ssh program";
  bool any_usable = false, any_key = false;
  for (const std::string& path : config.identity_files) {
    KeyFile key;
    if (!read_key_file(path, key)) continue;
    any_key = true;
    any_usable |= key.kind == KeyKind::ed25519 || key.kind == KeyKind::ecdsa;
  }
  return any_key && !any_usable ? "its only keys are of kinds that need the ssh program" : "";
}

NodeAddress with_ssh_config(NodeAddress node, const SshHostConfig& config) {
  if (!config.host_name.empty()) node.host = config.host_name;
  if (node.user.empty()) node.user = config.user;
  if (node.port == 22) node.port = config.port;
  if (!node.identity_file.empty()) return node;
  for (const std::string& path : config.identity_files) {
    KeyFile key;
    if (!read_key_file(path, key) || key.kind == KeyKind::rsa) continue;
    const bool is_usual = path.ends_with("/.ssh/id_ed25519") || path.ends_with("/.ssh/id_ecdsa");
    if (!is_usual) node.identity_file = path;
    break;
  }
  return node;
}

class SshConfigQuery::Shared : public std::enable_shared_from_this<Shared> {
 public:
  Shared(boost::asio::io_context& io, std::vector<std::string> files)
      : io_(io), is_plain_(std::all_of(files.begin(), files.end(), [](const std::string& path) {
          return is_plain_ssh_config(read_all(path));
        })) {}

  void ask(const NodeAddress& node, std::function<void(std::optional<SshHostConfig>)> done) {
    const std::string host = node.host.empty() ? node.id.value : node.host;
    const auto known = answers_.find(host);
    if (is_plain_ || known != answers_.end()) {
      auto answer = is_plain_ ? std::nullopt : known->second;
      boost::asio::post(io_, [done = std::move(done), answer] { done(answer); });
      return;
    }
    waiting_[host].push_back(std::move(done));
    if (waiting_[host].size() > 1) return;
    queue_.push_back(host);
    run_next();
  }

 private:
  struct Query {
    std::unique_ptr<RemoteProcess> process;
    std::string output;
  };

  void run_next() {
    while (running_.size() < max_queries_at_once && !queue_.empty()) {
      const std::string host = std::move(queue_.front());
      queue_.pop_front();
      Query& query = running_[host];
      query.process = start_child(io_, std::array<std::string, 4>{"ssh", "-G", "--", host});
      query.process->handle(
          {[&query](std::span<const std::byte> bytes) {
             query.output.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
           },
           nullptr, nullptr, [this, host](const RemoteExit& exit) { ended(host, exit); }});
    }
  }

  void ended(const std::string& name, const RemoteExit& exit) {
    const auto self = shared_from_this();
    const std::string host = name;  // the caller's copy dies with its query
    const auto query = running_.extract(host);
    const bool worked = exit.status == 0;
    answers_[host] = worked ? std::optional(parse_ssh_config(query.mapped().output)) : std::nullopt;
    const auto waiting = waiting_.extract(host);
    for (const auto& done : waiting.mapped()) done(answers_[host]);
    run_next();
  }

  boost::asio::io_context& io_;
  bool is_plain_;
  std::map<std::string, std::optional<SshHostConfig>> answers_;
  std::map<std::string, std::vector<std::function<void(std::optional<SshHostConfig>)>>> waiting_;
  std::deque<std::string> queue_;
  std::map<std::string, Query> running_;
};

SshConfigQuery::SshConfigQuery(boost::asio::io_context& io, std::vector<std::string> config_files)
    : shared_(std::make_shared<Shared>(io, std::move(config_files))) {}

SshConfigQuery::~SshConfigQuery() = default;

void SshConfigQuery::ask(const NodeAddress& node,
                         std::function<void(std::optional<SshHostConfig>)> done) {
  shared_->ask(node, std::move(done));
}

}  // namespace muster
