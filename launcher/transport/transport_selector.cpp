#include "launcher/transport/transport_selector.h"

#include <glob.h>
#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <deque>
#include <map>
#include <optional>
#include <random>
#include <sstream>
#include <utility>

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>

#include "launcher/os/child.h"
#include "launcher/os/read_file.h"
#include "launcher/os/timers.h"
#include "launcher/transport/link/attach_failure.h"
#include "launcher/transport/link/child_process.h"
#include "launcher/transport/link/start_gates.h"
#include "launcher/transport/local.h"
#include "launcher/transport/openssh_transport.h"
#include "launcher/transport/ssh/key_file.h"
#include "launcher/transport/ssh/transport.h"
#include "scheduler/text/text.h"

namespace muster {

namespace {

class TransportSelector final : public Transport {
 public:
  TransportSelector(boost::asio::io_context& io, const TransportSettings& settings)
      : has_kerberos_ticket_(settings.has_kerberos_ticket),
        pushes_(std::make_shared<PushGate>(io)),
        local_(io, settings.user_home),
        openssh_(io, settings.ssh, pushes_),
        ssh_(io, settings.ssh, pushes_,
             [this](const auto& target, const auto& launch, auto done) {
               openssh_.connect(target, launch, std::move(done));
             }),
        default_host_keys_(settings.ssh.host_keys),
        ask_config_(ask_ssh_config(io, settings.ssh_config_files, settings.has_kerberos_ticket)) {}

  void connect(const NodeAddress& node, const AgentLaunch& launch, ConnectDone done) override {
    if (node.transport == TransportKind::local) {
      return local_.connect(node, launch, std::move(done));
    }
    ask_config_(node, [this, alive = std::weak_ptr(alive_), node, launch,
                       done = std::move(done)](const SshConfigAnswer& answer) {
      if (alive.expired()) return;
      if (const auto* failure = std::get_if<LinkFailure>(&answer)) return done(*failure);
      connect_as(std::get_if<SshHostConfig>(&answer), node, launch, done);
    });
  }

 private:
  // `config`: null where nothing is configured. The stricter of it and the cluster file counts.
  void connect_as(const SshHostConfig* config, const NodeAddress& node, const AgentLaunch& launch,
                  ConnectDone done) {
    SshTarget target{node, config == nullptr ? default_host_keys_ : config->host_keys, ""};
    HostKeyPolicy::Strict& strict = target.host_keys.strict;
    if (launch.connect.refuses_unknown_hosts && strict != HostKeyPolicy::Strict::yes) {
      strict = HostKeyPolicy::Strict::known;
    }
    const bool for_openssh =
        node.transport == TransportKind::openssh ||
        (config != nullptr && !needs_openssh(*config, has_kerberos_ticket_).empty());
    if (for_openssh) {
      if (config != nullptr) target.host_name = config->host_name;
      return openssh_.connect(target, launch, std::move(done));
    }
    if (config != nullptr) target.node = with_ssh_config(node, *config);
    ssh_.connect(target, launch, std::move(done));
  }

  bool has_kerberos_ticket_;
  std::shared_ptr<PushGate> pushes_;
  LocalTransport local_;
  OpensshTransport openssh_;
  SshTransport ssh_;
  HostKeyPolicy default_host_keys_;
  AskSshConfig ask_config_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

constexpr std::size_t max_queries_at_once = 4;  // a process of 5 ms each, on a shared login node
constexpr std::chrono::seconds answer_lifetime{60};   // a start of the cluster asks once
constexpr std::size_t max_output_bytes = 256 * 1024;  // ssh prints 5 KiB

// What `ssh -G` may say that only the ssh program can do.
constexpr std::array<std::string_view, 7> only_ssh{
    "hostkeyalias",  "identityagent",   "pkcs11provider",   "bindaddress",
    "bindinterface", "revokedhostkeys", "knownhostscommand"};

// "Keyword value…" or "Keyword=value"; the keyword in lower case.
std::pair<std::string, std::string> directive(std::string line) {
  const std::size_t begin = line.find_first_not_of(" \t");
  if (begin == std::string::npos) return {};
  const std::size_t end = line.find_first_of(" \t=", begin);
  const std::string keyword = lower_case(line.substr(begin, end == line.npos ? end : end - begin));
  const std::size_t value = end == line.npos ? end : line.find_first_not_of(" \t=", end);
  if (value == line.npos) return {keyword, ""};
  line.erase(line.find_last_not_of(" \t\r") + 1);
  return {keyword, line.substr(value)};
}

// A relative pattern is below the folder of its file, and there may be several: ssh knows better.
bool matches_no_file(const std::string& pattern) {
  const bool is_one_path = pattern.find_first_of(" \t\"") == std::string::npos;
  if (!is_one_path || (pattern[0] != '/' && pattern[0] != '~')) return false;
  glob_t found{};
  const bool none = ::glob(pattern.c_str(), GLOB_TILDE, nullptr, &found) == GLOB_NOMATCH;
  ::globfree(&found);
  return none;
}

bool is_set(const std::string& value) {
  return !value.empty() && lower_case(value) != "none";
}

std::string expand_home(const std::string& path) {
  const char* home = std::getenv("HOME");
  return path.starts_with("~/") && home != nullptr ? home + path.substr(1) : path;
}

// %h, ${HOME}: `ssh -G` leaves them as they are.
bool has_token(const std::string& path) {
  return mentions(path, "%") || mentions(path, "${");
}

// `ask` and `accept-new` are one: nobody is there to be asked.
HostKeyPolicy::Strict strictness(const std::string& value) {
  if (value == "yes" || value == "true") return HostKeyPolicy::Strict::yes;
  if (value == "no" || value == "false" || value == "off") return HostKeyPolicy::Strict::no;
  return HostKeyPolicy::Strict::pin;
}

void add_paths(std::vector<std::string>& paths, const std::string& value) {
  std::istringstream words(value);
  for (std::string word; words >> word;) {
    if (is_set(word)) paths.push_back(expand_home(word));
  }
}

//  ask ──► answered within the last minute? ──► done
//             │ no: one query per address
//             ▼
//           queue ──► running (max_queries_at_once) ──► done, for all who asked
//                        ▼ timeout: a `Match exec` that hangs
//                      a failure, for all who asked
class SshConfigQuery : public std::enable_shared_from_this<SshConfigQuery> {
 public:
  SshConfigQuery(boost::asio::io_context& io, std::vector<std::string> files, bool always,
                 Milliseconds timeout)
      : io_(io), files_(std::move(files)), always_(always), timeout_(timeout) {}

  void ask(const NodeAddress& node, std::function<void(const SshConfigAnswer&)> done) {
    forget_old_answers();
    const auto argv = query_argv(node);
    const auto known = answers_.find(argv);
    if (is_plain_ || known != answers_.end()) {
      const auto answer = is_plain_ ? SshConfigAnswer(PlainSshConfig{}) : known->second;
      boost::asio::post(io_, [done = std::move(done), answer] { done(answer); });
      return;
    }
    waiting_[argv].push_back(std::move(done));
    if (waiting_[argv].size() > 1) return;
    queue_.push_back(argv);
    run_next();
  }

 private:
  using Argv = std::vector<std::string>;
  struct Query {
    std::unique_ptr<RemoteProcess> process;
    std::string output;
    Tail errors{1024};
    std::unique_ptr<Alarm> deadline;
  };

  static Argv query_argv(const NodeAddress& node) {
    Argv argv{"ssh", "-G"};
    if (!node.user.empty()) argv.insert(argv.end(), {"-l", node.user});
    if (node.port != 22) argv.insert(argv.end(), {"-p", std::to_string(node.port)});
    argv.insert(argv.end(), {"--", node.host.empty() ? node.id.value : node.host});
    return argv;
  }

  void forget_old_answers() {
    const auto now = std::chrono::steady_clock::now();
    if (answers_since_ && now - *answers_since_ < answer_lifetime) return;
    answers_since_ = now;
    answers_.clear();
    is_plain_ = !always_ && std::ranges::all_of(files_, [](const auto& path) {
      return is_plain_ssh_config(text_of_file(path));
    });
  }

  void run_next() {
    while (running_.size() < max_queries_at_once && !queue_.empty()) {
      const Argv argv = std::move(queue_.front());
      queue_.pop_front();
      start(running_.try_emplace(argv).first->second, argv);
    }
  }

  // The query holds no share of this: dropping the transport ends it.
  void start(Query& query, const Argv& argv) {
    query.deadline = call_after(io_, timeout_, [this, argv] { timed_out(argv); });
    query.process = start_child(io_, argv);
    query.process->handle({[&query](std::span<const std::byte> bytes) {
                             if (query.output.size() > max_output_bytes) return;
                             query.output += text_of(bytes);
                           },
                           [&query](std::string_view text) { query.errors.add(text); }, nullptr,
                           [this, argv](const RemoteExit& exit) { ended(argv, exit); }});
    query.process->close_stdin();
  }

  void timed_out(const Argv& argv) {
    answer(argv, failure(argv, "did not answer within " + std::to_string(timeout_.count() / 1000) +
                                   " s; is there a `Match exec` in your ssh configuration that "
                                   "hangs?"));
  }

  void ended(const Argv& argv, const RemoteExit& exit) {
    if (!exit.status) return answer(Argv(argv), PlainSshConfig{});  // there is no ssh program
    const Query& query = running_.at(argv);
    if (*exit.status == 0) return answer(Argv(argv), parse_ssh_config(query.output));
    answer(Argv(argv), failure(argv, "failed: " + last_line(query.errors.text()) +
                                         "; correct your ssh configuration"));
  }

  static LinkFailure failure(const Argv& argv, const std::string& what) {
    return {LinkFailureKind::shell, argv.back() + ": `ssh -G " + argv.back() + "` " + what};
  }

  // `argv` is a copy: the one in the query's handler dies with the query.
  void answer(Argv argv, const SshConfigAnswer& answer) {
    const auto self = shared_from_this();
    const auto query = running_.extract(argv);
    if (!std::holds_alternative<LinkFailure>(answer)) answers_[argv] = answer;
    const auto waiting = waiting_.extract(argv);
    for (const auto& done : waiting.mapped()) done(answer);
    run_next();
  }

  boost::asio::io_context& io_;
  std::vector<std::string> files_;
  bool always_;
  Milliseconds timeout_;
  bool is_plain_ = false;
  std::optional<std::chrono::steady_clock::time_point> answers_since_;
  std::map<Argv, SshConfigAnswer> answers_;
  std::map<Argv, std::vector<std::function<void(const SshConfigAnswer&)>>> waiting_;
  std::deque<Argv> queue_;
  std::map<Argv, Query> running_;
};

}  // namespace

TransportSettings transport_settings_from_environment(const std::string& muster_home) {
  TransportSettings settings;
  SshSettings& ssh = settings.ssh;
  settings.user_home = environment("HOME");
  if (const passwd* account = ::getpwuid(::getuid())) {
    ssh.user = account->pw_name;
    if (settings.user_home.empty()) settings.user_home = account->pw_dir;
  }
  ssh.key_folder = settings.user_home + "/.ssh";
  ssh.host_keys.files = {ssh.key_folder + "/known_hosts", ssh.key_folder + "/known_hosts2",
                         "/etc/ssh/ssh_known_hosts", "/etc/ssh/ssh_known_hosts2"};
  ssh.own_known_hosts = muster_home + "/known_hosts";
  ssh.agent_socket = environment("SSH_AUTH_SOCK");
  ssh.jitter_seed = std::random_device{}();
  settings.ssh_config_files = {ssh.key_folder + "/config", "/etc/ssh/ssh_config"};
  const std::string ticket = "/tmp/krb5cc_" + std::to_string(::getuid());
  settings.has_kerberos_ticket =
      std::getenv("KRB5CCNAME") != nullptr || ::access(ticket.c_str(), R_OK) == 0;
  return settings;
}

std::unique_ptr<Transport> make_transport(boost::asio::io_context& io, TransportSettings settings) {
  return std::make_unique<TransportSelector>(io, settings);
}

SshHostConfig parse_ssh_config(std::string_view dump) {
  SshHostConfig config;
  std::istringstream lines{std::string(dump)};
  for (std::string line; std::getline(lines, line);) {
    const auto [keyword, value] = directive(line);
    if (keyword == "hostname") config.host_name = value;
    if (keyword == "user") config.user = value;
    if (keyword == "port") config.port = static_cast<int>(std::strtol(value.c_str(), nullptr, 10));
    if (keyword == "identityfile") {
      config.identity_files.push_back(expand_home(value));
      config.has_other_needs |= has_token(value);
    }
    if (keyword == "proxyjump" || keyword == "proxycommand") {
      config.goes_through_proxy |= is_set(value);
    }
    if (keyword == "certificatefile") config.has_certificate |= is_set(value);
    if (keyword == "gssapiauthentication") config.allows_kerberos = value == "yes";
    if (std::find(only_ssh.begin(), only_ssh.end(), keyword) != only_ssh.end()) {
      config.has_other_needs |= is_set(value) && value != "SSH_AUTH_SOCK";
    }
    if (keyword == "addressfamily") config.has_other_needs |= value != "any";
    if (keyword == "verifyhostkeydns") config.has_other_needs |= value != "false";
    if (keyword == "stricthostkeychecking") config.host_keys.strict = strictness(value);
    if (keyword == "userknownhostsfile" || keyword == "globalknownhostsfile") {
      config.has_other_needs |= has_token(value);
      add_paths(config.host_keys.files, value);
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
    const auto key = read_key_file(path);
    any_key |= key.has_value();
    any_usable |= key && (key->kind == KeyKind::ed25519 || key->kind == KeyKind::ecdsa);
  }
  return any_key && !any_usable ? "its only keys are of kinds that need the ssh program" : "";
}

NodeAddress with_ssh_config(NodeAddress node, const SshHostConfig& config) {
  if (!config.host_name.empty()) node.host = config.host_name;
  if (node.user.empty()) node.user = config.user;
  if (node.port == 22) node.port = config.port;
  if (!node.identity_file.empty()) return node;
  for (const std::string& path : config.identity_files) {
    const auto key = read_key_file(path);
    if (!key || key->kind == KeyKind::rsa) continue;
    const bool is_usual = path.ends_with("/.ssh/id_ed25519") || path.ends_with("/.ssh/id_ecdsa");
    if (!is_usual) node.identity_file = path;
    break;
  }
  return node;
}

AskSshConfig ask_ssh_config(boost::asio::io_context& io, std::vector<std::string> config_files,
                            bool always, Milliseconds timeout) {
  return [query = std::make_shared<SshConfigQuery>(io, std::move(config_files), always, timeout)](
             const NodeAddress& node, std::function<void(const SshConfigAnswer&)> done) {
    query->ask(node, std::move(done));
  };
}

}  // namespace muster
