#include "launcher/transport/ssh_connect.h"

#include <algorithm>
#include <boost/asio/connect.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <utility>

#include "launcher/transport/agent_attach.h"
#include "launcher/transport/attach_failure.h"
#include "launcher/transport/retry_pause.h"
#include "launcher/transport/ssh_shell.h"

namespace muster {
namespace {

class Connect final : public SshConnect, public std::enable_shared_from_this<Connect> {
 public:
  Connect(std::shared_ptr<SshContext> context, const SshTarget& target, const AgentLaunch& launch,
          std::function<void(SshConnectResult)> done)
      : context_(std::move(context)),
        target_(target),
        launch_(launch),
        done_(std::move(done)),
        timer_(context_->io) {
    if (node_.user.empty()) node_.user = context_->settings.user;
    if (node_.host.empty()) node_.host = node_.id.value;
  }

  void begin();
  void cancel() override;

 private:
  const ConnectSettings& limits() const { return launch_.connect; }
  void resolved(ResolveResult result);
  void wait_for_gate();
  void connect_tcp();
  void connected(boost::system::error_code error);
  void log_in();
  void logged_in(const LoginResult& result);
  void dropped(const std::string& reason);
  void attach();
  void attached(AttachResult result);
  void fail(LinkFailureKind kind, const std::string& message);
  void finish(SshConnectResult result);
  void after(Milliseconds delay, void (Connect::*then)());
  void resolve_timed_out();
  void tcp_timed_out();
  void login_timed_out();

  template <class Call>
  auto guarded(Call call) {
    return [weak = weak_from_this(), call](auto&&... arguments) {
      const auto self = weak.lock();
      if (self && self->done_) call(*self, std::forward<decltype(arguments)>(arguments)...);
    };
  }

  std::shared_ptr<SshContext> context_;
  SshTarget target_;
  NodeAddress& node_ = target_.node;
  AgentLaunch launch_;
  std::function<void(SshConnectResult)> done_;
  boost::asio::steady_timer timer_;
  PhaseTimer phases_;
  std::string methods_;
  Endpoints endpoints_;
  HandshakeGate::Pass pass_;
  std::shared_ptr<SshSession> session_;
  std::unique_ptr<SshLogin> login_;
  std::shared_ptr<RemoteShell> shell_;
  std::shared_ptr<AgentAttach> attach_;
  int drops_ = 0;
};

void Connect::begin() {
  after(limits().resolve_timeout, &Connect::resolve_timed_out);
  context_->resolver.resolve(
      node_.host, node_.port,
      guarded([](Connect& self, ResolveResult result) { self.resolved(std::move(result)); }));
}

void Connect::resolved(ResolveResult result) {
  if (auto* failure = std::get_if<LinkFailure>(&result)) {
    return fail(failure->kind, failure->message);
  }
  phases_.finish("resolve");
  timer_.expires_at(std::chrono::steady_clock::time_point::max());
  endpoints_ = std::get<Endpoints>(std::move(result));
  if (endpoints_.empty()) return fail(LinkFailureKind::unknown_host, "the name has no address");
  wait_for_gate();
}

void Connect::wait_for_gate() {
  const auto& endpoint = endpoints_.front();
  const std::string address =
      endpoint.address().to_string() + ":" + std::to_string(endpoint.port());
  context_->gate->enter(address, {limits().handshakes, limits().unauthenticated_per_host},
                        guarded([](Connect& self, HandshakeGate::Pass pass) {
                          self.pass_ = std::move(pass);
                          self.connect_tcp();
                        }));
}

void Connect::connect_tcp() {
  phases_.restart();
  session_ = std::make_shared<SshSession>(context_->io);
  after(limits().tcp_timeout, &Connect::tcp_timed_out);
  boost::asio::async_connect(
      session_->socket(), endpoints_,
      guarded([](Connect& self, boost::system::error_code error, const auto&) {
        if (error != boost::asio::error::operation_aborted) self.connected(error);
      }));
}

void Connect::resolve_timed_out() {
  fail(LinkFailureKind::unreachable,
       "the name service did not answer for " + node_.host + " within " +
           std::to_string(limits().resolve_timeout.count() / 1000) +
           " s; see /etc/resolv.conf, or give an address in the cluster file");
}

void Connect::tcp_timed_out() {
  fail(LinkFailureKind::unreachable,
       "no answer on port " + std::to_string(node_.port) + " within " +
           std::to_string(limits().tcp_timeout.count() / 1000) +
           " s; is the node on, and is there a firewall in between?");
}

void Connect::connected(boost::system::error_code error) {
  if (error == boost::asio::error::connection_refused) {
    return fail(LinkFailureKind::unreachable, "port " + std::to_string(node_.port) +
                                                  " refuses connections; does sshd run there?");
  }
  if (error) {
    return fail(LinkFailureKind::unreachable, "cannot connect to port " +
                                                  std::to_string(node_.port) + ": " +
                                                  error.message() + "; check the network");
  }
  phases_.finish("tcp");
  log_in();
}

void Connect::log_in() {
  after(limits().login_timeout, &Connect::login_timed_out);
  session_->begin(limits().silence);
  login_ = begin_login(
      session_, target_, context_->settings, target_.desk ? target_.desk : context_->desk, phases_,
      guarded([](Connect& self, const LoginResult& result) { self.logged_in(result); }));
}

void Connect::login_timed_out() {
  fail(LinkFailureKind::unreachable,
       "sshd let nobody in within " +
           std::to_string(limits().login_timeout.count() / 1000) +
           " s; is the node overloaded, or its name service slow?");
}

void Connect::logged_in(const LoginResult& result) {
  login_.reset();
  timer_.cancel();
  pass_.release();
  if (const auto* drop = std::get_if<LoginDropped>(&result)) return dropped(drop->reason);
  if (const auto* other = std::get_if<LoginNeedsOpenssh>(&result)) return finish(*other);
  if (const auto* failure = std::get_if<LinkFailure>(&result)) return finish(*failure);
  attach();
}

void Connect::dropped(const std::string& reason) {
  session_.reset();
  if (++drops_ > limits().retries) {
    return fail(LinkFailureKind::unreachable,
                "sshd closed " + std::to_string(drops_) + " connections before login (" + reason +
                    "); see its log there, and MaxStartups in sshd_config");
  }
  after(pause_after_drops(drops_, context_->jitter), &Connect::wait_for_gate);
}

void Connect::attach() {
  methods_ = session_->methods();
  shell_ = make_ssh_shell(session_);
  attach_ = attach_agent(
      context_->io, shell_, context_->pushes, node_, launch_, nullptr,
      guarded([](Connect& self, AttachResult result) { self.attached(std::move(result)); }));
  session_.reset();  // the shell has it
}

void Connect::attached(AttachResult result) {
  if (auto* failure = std::get_if<LinkFailure>(&result)) return finish(std::move(*failure));
  if (auto* none = std::get_if<NoShell>(&result)) return finish(no_shell_failure(node_, *none));
  auto& agent = std::get<Attached>(result);
  phases_.append(agent.profile);
  finish(SshConnected{std::move(agent.process), std::move(agent.first_bytes), phases_.profile(),
                      std::move(methods_), shell_});
}

void Connect::after(Milliseconds delay, void (Connect::*then)()) {
  timer_.expires_after(delay);
  timer_.async_wait(guarded([then](Connect& self, boost::system::error_code error) {
    if (!error && self.timer_.expiry() <= std::chrono::steady_clock::now()) (self.*then)();
  }));
}

void Connect::fail(LinkFailureKind kind, const std::string& message) {
  finish(LinkFailure{kind, describe(node_) + ": " + message});
}

void Connect::finish(SshConnectResult result) {
  const auto done = std::exchange(done_, nullptr);
  cancel();
  done(std::move(result));
}

void Connect::cancel() {
  done_ = nullptr;
  timer_.cancel();
  login_.reset();
  if (attach_) std::exchange(attach_, nullptr)->cancel();
  if (session_) session_->close("given up");
  session_.reset();
  shell_.reset();
  pass_.release();
}

}  // namespace

SshContext::SshContext(boost::asio::io_context& the_io, SshSettings the_settings,
                       std::shared_ptr<PushGate> the_pushes)
    : io(the_io),
      settings(std::move(the_settings)),
      desk(make_own_desk(the_io, settings.own_known_hosts, settings.agent_socket)),
      resolver(the_io),
      gate(std::make_shared<HandshakeGate>(the_io)),
      pushes(std::move(the_pushes)),
      jitter(settings.jitter_seed) {}

std::shared_ptr<SshConnect> begin_ssh_connect(std::shared_ptr<SshContext> context,
                                              const SshTarget& target, const AgentLaunch& launch,
                                              std::function<void(SshConnectResult)> done) {
  auto connect = std::make_shared<Connect>(std::move(context), target, launch, std::move(done));
  connect->begin();
  return connect;
}

}  // namespace muster
