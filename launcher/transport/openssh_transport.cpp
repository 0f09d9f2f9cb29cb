#include "launcher/transport/openssh_transport.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <list>
#include <random>
#include <string>
#include <utility>

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>

#include "launcher/transport/link/agent_attach.h"
#include "launcher/transport/link/attach_failure.h"
#include "launcher/transport/link/child_process.h"
#include "launcher/transport/link/handshake_gate.h"
#include "launcher/transport/link/process_link.h"

namespace muster {

namespace {

// A child of about 10 MB that spends 60 ms of CPU on its key exchange: more at once only queue up.
constexpr int max_ssh_children_in_login = 16;

std::string option(const std::string& name, const std::string& value) {
  return name + "=" + value;
}

// As a word of a configuration line, where % begins a token.
std::string quoted_path(const std::string& path) {
  std::string quoted = "\"";
  for (const char c : path) {
    if (c == '"' || c == '\\') quoted += '\\';
    if (c == '%') quoted += '%';
    quoted += c;
  }
  return quoted + "\"";
}

class OpensshShell final : public RemoteShell {
 public:
  OpensshShell(boost::asio::io_context& io, std::vector<std::string> argv)
      : io_(io), argv_(std::move(argv)) {}

  std::unique_ptr<RemoteProcess> run(const std::string& command) override {
    std::vector<std::string> argv = argv_;
    argv.push_back(command);
    return start_child(io_, argv);
  }

 private:
  boost::asio::io_context& io_;
  std::vector<std::string> argv_;
};

constexpr int ssh_itself_failed = 255;

struct Pattern {
  std::string_view text;
  LinkFailureKind kind;
  std::string_view cure;
};

// The first that occurs counts.
constexpr std::array patterns{
    Pattern{"IDENTIFICATION HAS CHANGED", LinkFailureKind::changed_host_key,
            "either the node was reinstalled or someone is in between; if you know why, remove "
            "the old key with ssh-keygen -R"},
    Pattern{"Host key verification failed", LinkFailureKind::changed_host_key,
            "compare the node's host key with the one on record"},
    Pattern{"REVOKED", LinkFailureKind::changed_host_key, "the node offers a revoked host key"},
    Pattern{"Could not resolve hostname", LinkFailureKind::unknown_host,
            "check its spelling in the cluster file, or give an address"},
    Pattern{"Permission denied (", LinkFailureKind::refused_key,
            "add your public key to ~/.ssh/authorized_keys there, or name another with "
            "identity_file or user"},
    Pattern{"Too many authentication failures", LinkFailureKind::refused_key,
            "name the right key with identity_file"},
    Pattern{"Unable to negotiate", LinkFailureKind::wrong_build,
            "the ssh programs of both sides have no algorithm in common"},
    Pattern{"Bad configuration option", LinkFailureKind::shell, "correct your ssh configuration"},
    Pattern{"Bad owner or permissions", LinkFailureKind::shell, "correct your ssh configuration"},
    Pattern{"Connection refused", LinkFailureKind::unreachable, "does sshd run there?"},
    Pattern{"No route to host", LinkFailureKind::unreachable, "check the network"},
    Pattern{"Network is unreachable", LinkFailureKind::unreachable, "check the network"},
    Pattern{"timed out", LinkFailureKind::unreachable,
            "is the node on, and is there a firewall in between?"},
};

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

}  // namespace

struct OpensshContext {
  boost::asio::io_context& io;
  SshSettings settings;
  std::shared_ptr<PushGate> pushes;
  std::shared_ptr<HandshakeGate> gate;
  std::mt19937_64 jitter;
  HostKeyStore host_keys;
};

//   gate ──► attach (a child `ssh` per command) ──► done
//    ▲          │
//    └─ pause ◄─┘ dropped by sshd, up to `retries` times
class OpensshConnect : public std::enable_shared_from_this<OpensshConnect> {
 public:
  OpensshConnect(std::shared_ptr<OpensshContext> context, const SshTarget& target,
                 const AgentLaunch& launch, std::function<void(ConnectResult)> done)
      : context_(std::move(context)),
        target_(target),
        launch_(launch),
        done_(std::move(done)),
        timer_(context_->io) {
    if (node_.host.empty()) node_.host = node_.id.value;
  }

  void wait_for_gate() {
    const ConnectSettings& limits = launch_.connect;
    context_->gate->enter(
        node_.host + ":" + std::to_string(node_.port),
        {std::min(limits.handshakes, max_ssh_children_in_login), limits.unauthenticated_per_host},
        [weak = weak_from_this()](HandshakeGate::Pass pass) {
          const auto self = weak.lock();
          if (self && self->done_) self->attach(std::move(pass));
        });
  }

  void cancel() {
    done_ = nullptr;
    timer_.cancel();
    if (attach_) std::exchange(attach_, nullptr)->cancel();
    pass_.release();
  }

 private:
  void attach(HandshakeGate::Pass pass) {
    pass_ = std::move(pass);
    was_known_ =
        !context_->host_keys.known_types(target_.host_keys, known_name(), node_.port).empty();
    auto shell = std::make_shared<OpensshShell>(
        context_->io, openssh_argv(target_, context_->settings, launch_.connect));
    attach_ = attach_agent(
        context_->io, std::move(shell), context_->pushes, node_, launch_,
        [weak = weak_from_this()] {
          if (const auto self = weak.lock()) self->pass_.release();
        },
        [weak = weak_from_this()](AttachResult result) {
          if (const auto self = weak.lock()) self->attached(std::move(result));
        });
  }

  void attached(AttachResult result) {
    pass_.release();
    if (auto* failure = std::get_if<LinkFailure>(&result)) return finish(std::move(*failure));
    if (auto* none = std::get_if<NoShell>(&result)) return no_shell(*none);
    auto& agent = std::get<Attached>(result);
    finish(Connected{make_process_link(context_->io, std::move(agent.process),
                                       std::move(agent.first_bytes), node_),
                     agent.profile, "", std::nullopt, first_contact()});
  }

  const std::string& known_name() const {
    return target_.host_name.empty() ? node_.host : target_.host_name;
  }

  std::string first_contact() {
    const auto pinned =
        was_known_ ? std::nullopt : context_->host_keys.pinned(known_name(), node_.port);
    return pinned ? first_contact_text(node_, *pinned) : "";
  }

  void no_shell(const NoShell& none) {
    const bool dropped = openssh_was_dropped(none.exit, none.errors);
    if (!dropped || ++drops_ > launch_.connect.retries) {
      return finish(openssh_failure(node_, none.exit, none.output, none.errors));
    }
    timer_.expires_after(pause_after_drops(drops_, context_->jitter));
    timer_.async_wait([weak = weak_from_this()](boost::system::error_code error) {
      const auto self = weak.lock();
      if (self && !error && self->done_) self->wait_for_gate();
    });
  }

  void finish(ConnectResult result) {
    const auto done = std::exchange(done_, nullptr);
    if (done) done(std::move(result));
  }

  std::shared_ptr<OpensshContext> context_;
  SshTarget target_;
  NodeAddress& node_ = target_.node;
  AgentLaunch launch_;
  std::function<void(ConnectResult)> done_;
  boost::asio::steady_timer timer_;
  HandshakeGate::Pass pass_;
  std::shared_ptr<AgentAttach> attach_;
  bool was_known_ = true;
  int drops_ = 0;
};

std::vector<std::string> openssh_argv(const SshTarget& target, const SshSettings& settings,
                                      const ConnectSettings& limits) {
  const auto seconds = [](Milliseconds time) { return std::to_string(time.count() / 1000); };
  // ControlMaster: a connection that is there is used, but a child that stays as a master would
  // keep its standard error open and never seem to end.
  std::vector<std::string> options{option("BatchMode", "yes"),
                                   option("LogLevel", "ERROR"),
                                   option("ConnectTimeout", seconds(limits.tcp_timeout)),
                                   option("ServerAliveInterval", seconds(limits.silence / 3)),
                                   option("ServerAliveCountMax", "3"),
                                   option("ClearAllForwardings", "yes"),
                                   option("ControlMaster", "no"),
                                   option("RemoteCommand", "none"),
                                   option("PermitLocalCommand", "no")};
  const HostKeyPolicy::Strict strict = target.host_keys.strict;
  if (strict == HostKeyPolicy::Strict::pin || strict == HostKeyPolicy::Strict::known) {
    const bool pins = strict == HostKeyPolicy::Strict::pin;
    std::string files = quoted_path(settings.own_known_hosts);  // the first takes unknown hosts
    for (const std::string& file : target.host_keys.files) files += " " + quoted_path(file);
    options.push_back(option("StrictHostKeyChecking", pins ? "accept-new" : "yes"));
    options.push_back(option("UserKnownHostsFile", files));
  } else {
    const bool is_strict = strict == HostKeyPolicy::Strict::yes;
    options.push_back(option("StrictHostKeyChecking", is_strict ? "yes" : "no"));
  }
  std::vector<std::string> argv{"ssh", "-T", "-a", "-x"};
  for (const std::string& each : options) argv.insert(argv.end(), {"-o", each});
  const NodeAddress& node = target.node;
  if (!node.user.empty()) argv.insert(argv.end(), {"-l", node.user});
  if (node.port != 22) argv.insert(argv.end(), {"-p", std::to_string(node.port)});
  if (!node.identity_file.empty()) argv.insert(argv.end(), {"-i", node.identity_file});
  argv.insert(argv.end(), {"--", node.host});
  return argv;
}

class OpensshTransport::Shared : public std::enable_shared_from_this<Shared> {
 public:
  explicit Shared(std::shared_ptr<OpensshContext> context) : context_(std::move(context)) {
    std::error_code ignored;  // ssh says what it cannot write
    std::filesystem::create_directories(
        std::filesystem::path(context_->settings.own_known_hosts).parent_path(), ignored);
  }

  const SshSettings& settings() const { return context_->settings; }

  void connect(const SshTarget& target, const AgentLaunch& launch,
               std::function<void(ConnectResult)> done) {
    const auto place = active_.emplace(active_.end());
    *place = std::make_shared<OpensshConnect>(
        context_, target, launch,
        [weak = weak_from_this(), place, done = std::move(done)](ConnectResult result) {
          const auto self = weak.lock();
          if (!self) return;
          const auto keep = std::move(*place);  // it is calling
          self->active_.erase(place);
          keep->cancel();
          done(std::move(result));
        });
    (*place)->wait_for_gate();
  }

  void cancel() {
    for (const auto& each : active_) each->cancel();
    active_.clear();
  }

 private:
  std::shared_ptr<OpensshContext> context_;
  std::list<std::shared_ptr<OpensshConnect>> active_;
};

OpensshTransport::OpensshTransport(boost::asio::io_context& io, SshSettings settings,
                                   std::shared_ptr<PushGate> pushes) {
  auto gate = std::make_shared<HandshakeGate>(io);
  const std::uint64_t seed = settings.jitter_seed;
  HostKeyStore host_keys(settings.own_known_hosts);
  shared_ = std::make_shared<Shared>(std::make_shared<OpensshContext>(
      OpensshContext{io, std::move(settings), std::move(pushes), std::move(gate),
                     std::mt19937_64(seed), std::move(host_keys)}));
}

OpensshTransport::~OpensshTransport() {
  shared_->cancel();
}

void OpensshTransport::connect(const NodeAddress& node, const AgentLaunch& launch,
                               std::function<void(ConnectResult)> done) {
  connect(SshTarget{node, shared_->settings().host_keys}, launch, std::move(done));
}

void OpensshTransport::connect(const SshTarget& target, const AgentLaunch& launch,
                               std::function<void(ConnectResult)> done) {
  shared_->connect(target, launch, std::move(done));
}

bool openssh_was_dropped(const RemoteExit& exit, std::string_view errors) {
  if (exit.status != ssh_itself_failed) return false;
  const bool during_handshake =
      contains(errors, "kex_exchange_identification") || contains(errors, "banner exchange") ||
      contains(errors, "Connection closed by") || contains(errors, "Connection reset by");
  return during_handshake && !contains(errors, "Permission denied") &&
         !contains(errors, "timed out");
}

LinkFailure openssh_failure(const NodeAddress& node, const RemoteExit& exit,
                            std::string_view output, std::string_view errors) {
  if (!exit.status) {
    return {LinkFailureKind::shell,
            describe(node) + ": " + exit.reason + "; install the OpenSSH client on this machine"};
  }
  if (*exit.status != ssh_itself_failed) return attach_failure(node, exit, false, output, errors);
  const auto found = std::find_if(patterns.begin(), patterns.end(), [&](const Pattern& pattern) {
    return contains(errors, pattern.text);
  });
  const std::string said = describe(node) + ": ssh said: " + last_line(errors);
  if (found == patterns.end()) {
    return {LinkFailureKind::unreachable, said + "; try the same with `ssh " + node.host + "`"};
  }
  return {found->kind, said + "; " + std::string(found->cure)};
}

}  // namespace muster
