#include "launcher/transport/openssh_transport.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <random>
#include <utility>

#include <boost/asio/io_context.hpp>

#include "launcher/os/timers.h"
#include "launcher/transport/link/agent_attach.h"
#include "launcher/transport/link/attach_failure.h"
#include "launcher/transport/link/child_process.h"
#include "scheduler/text/text.h"

namespace muster {

namespace {

// A child of about 10 MB that spends 60 ms of CPU on its key exchange: more at once only queue up.
constexpr int max_ssh_children_in_login = 16;

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

constexpr int ssh_itself_failed = 255;

// The first that occurs counts.
constexpr std::array patterns{
    FailurePattern{
        "IDENTIFICATION HAS CHANGED", LinkFailureKind::changed_host_key,
        "either the node was reinstalled or someone is in between; if you know why, remove "
        "the old key with ssh-keygen -R"},
    FailurePattern{"Host key verification failed", LinkFailureKind::changed_host_key,
                   "compare the node's host key with the one on record"},
    FailurePattern{"REVOKED", LinkFailureKind::changed_host_key,
                   "the node offers a revoked host key"},
    FailurePattern{"Could not resolve hostname", LinkFailureKind::unknown_host,
                   "check its spelling in the cluster file, or give an address"},
    FailurePattern{"Permission denied (", LinkFailureKind::refused_key,
                   "add your public key to ~/.ssh/authorized_keys there, or name another with "
                   "identity_file or user"},
    FailurePattern{"Too many authentication failures", LinkFailureKind::refused_key,
                   "name the right key with identity_file"},
    FailurePattern{"Unable to negotiate", LinkFailureKind::wrong_build,
                   "the ssh programs of both sides have no algorithm in common"},
    FailurePattern{"Bad configuration option", LinkFailureKind::shell,
                   "correct your ssh configuration"},
    FailurePattern{"Bad owner or permissions", LinkFailureKind::shell,
                   "correct your ssh configuration"},
    FailurePattern{"Connection refused", LinkFailureKind::unreachable, "does sshd run there?"},
    FailurePattern{"No route to host", LinkFailureKind::unreachable, "check the network"},
    FailurePattern{"Network is unreachable", LinkFailureKind::unreachable, "check the network"},
    FailurePattern{"timed out", LinkFailureKind::unreachable,
                   "is the node on, and is there a firewall in between?"},
};

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
                 const AgentLaunch& launch, ConnectDone done)
      : context_(std::move(context)), target_(target), launch_(launch), done_(std::move(done)) {
    if (node_.host.empty()) node_.host = node_.id.value;
  }

  void wait_for_gate() {
    const ConnectSettings& limits = launch_.connect;
    context_->gate->enter(
        node_.host + ":" + std::to_string(node_.port),
        {std::min(limits.handshakes, max_ssh_children_in_login), limits.unauthenticated_per_host},
        while_alive(weak_from_this(), &OpensshConnect::attach));
  }

  void cancel() {
    done_ = nullptr;
    pause_.reset();
    if (attach_) std::exchange(attach_, nullptr)->cancel();
    pass_.reset();
  }

 private:
  void attach(HandshakeGate::Pass pass) {
    pass_ = std::move(pass);
    was_known_ =
        !context_->host_keys.known_types(target_.host_keys, known_name(), node_.port).empty();
    auto shell =
        make_child_shell(context_->io, openssh_argv(target_, context_->settings, launch_.connect));
    const auto let_in = [](OpensshConnect& self) { self.pass_.reset(); };
    attach_ = attach_agent(context_->io, std::move(shell), context_->pushes, node_, launch_,
                           while_alive(weak_from_this(), let_in),
                           while_alive(weak_from_this(), &OpensshConnect::attached));
  }

  void attached(AttachResult result) {
    pass_.reset();
    if (auto* none = std::get_if<NoShell>(&result)) return no_shell(*none);
    ConnectResult linked = as_link(context_->io, std::move(result), node_);
    if (auto* agent = std::get_if<Connected>(&linked)) agent->first_contact = first_contact();
    finish(std::move(linked));
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
    pause_ = call_after(context_->io, pause_after_drops(drops_, context_->jitter),
                        while_alive(weak_from_this(), &OpensshConnect::wait_for_gate));
  }

  void finish(ConnectResult result) {
    const auto done = std::exchange(done_, nullptr);
    if (!done) return;
    cancel();
    done(std::move(result));
  }

  std::shared_ptr<OpensshContext> context_;
  SshTarget target_;
  NodeAddress& node_ = target_.node;
  AgentLaunch launch_;
  ConnectDone done_;
  std::unique_ptr<Alarm> pause_;
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
  std::vector<std::string> options{"BatchMode=yes",
                                   "LogLevel=ERROR",
                                   "ConnectTimeout=" + seconds(limits.tcp_timeout),
                                   "ServerAliveInterval=" + seconds(limits.silence / 3),
                                   "ServerAliveCountMax=3",
                                   "ClearAllForwardings=yes",
                                   "ControlMaster=no",
                                   "RemoteCommand=none",
                                   "PermitLocalCommand=no"};
  const HostKeyPolicy::Strict strict = target.host_keys.strict;
  if (strict == HostKeyPolicy::Strict::pin || strict == HostKeyPolicy::Strict::known) {
    const bool pins = strict == HostKeyPolicy::Strict::pin;
    std::string files = quoted_path(settings.own_known_hosts);  // the first takes unknown hosts
    for (const std::string& file : target.host_keys.files) files += " " + quoted_path(file);
    options.push_back(std::string("StrictHostKeyChecking=") + (pins ? "accept-new" : "yes"));
    options.push_back("UserKnownHostsFile=" + files);
  } else {
    const bool is_strict = strict == HostKeyPolicy::Strict::yes;
    options.push_back(std::string("StrictHostKeyChecking=") + (is_strict ? "yes" : "no"));
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

OpensshTransport::OpensshTransport(boost::asio::io_context& io, SshSettings settings,
                                   std::shared_ptr<PushGate> pushes) {
  auto gate = std::make_shared<HandshakeGate>(io);
  const std::uint64_t seed = settings.jitter_seed;
  HostKeyStore host_keys(settings.own_known_hosts);
  std::error_code ignored;  // ssh says what it cannot write
  std::filesystem::create_directories(std::filesystem::path(settings.own_known_hosts).parent_path(),
                                      ignored);
  context_ = std::make_shared<OpensshContext>(
      OpensshContext{io, std::move(settings), std::move(pushes), std::move(gate),
                     std::mt19937_64(seed), std::move(host_keys)});
}

OpensshTransport::~OpensshTransport() = default;

void OpensshTransport::connect(const SshTarget& target, const AgentLaunch& launch,
                               ConnectDone done) {
  const auto make = [&](ConnectDone call) {
    return std::make_shared<OpensshConnect>(context_, target, launch, std::move(call));
  };
  active_.add(make, std::move(done))->wait_for_gate();
}

bool openssh_was_dropped(const RemoteExit& exit, std::string_view errors) {
  if (exit.status != ssh_itself_failed) return false;
  const bool during_handshake =
      mentions(errors, "kex_exchange_identification") || mentions(errors, "banner exchange") ||
      mentions(errors, "Connection closed by") || mentions(errors, "Connection reset by");
  return during_handshake && !mentions(errors, "Permission denied") &&
         !mentions(errors, "timed out");
}

LinkFailure openssh_failure(const NodeAddress& node, const RemoteExit& exit,
                            std::string_view output, std::string_view errors) {
  if (!exit.status) {
    return {LinkFailureKind::shell,
            describe(node) + ": " + exit.reason + "; install the OpenSSH client on this machine"};
  }
  if (*exit.status != ssh_itself_failed) return attach_failure(node, exit, false, output, errors);
  const FailurePattern* found = find_pattern(patterns, errors);
  const std::string said = describe(node) + ": ssh said: " + last_line(errors);
  if (found == nullptr) {
    return {LinkFailureKind::unreachable, said + "; try the same with `ssh " + node.host + "`"};
  }
  // Of a host on the way, or by another name, it is not known who refuses.
  const bool is_denied = mentions(errors, "connect to host " + node.host + " port ") &&
                         mentions(errors, "Connection refused");
  return {found->kind, said + "; " + std::string(found->cure), false, is_denied};
}

}  // namespace muster
