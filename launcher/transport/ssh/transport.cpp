#include "launcher/transport/ssh/transport.h"

#include <netdb.h>
#include <sys/resource.h>

#include <chrono>
#include <cstring>
#include <random>
#include <utility>
#include <variant>
#include <vector>

#include <boost/asio/error.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/thread_pool.hpp>

#include "launcher/os/tcp_facts.h"
#include "launcher/os/timers.h"
#include "launcher/transport/link/agent_attach.h"
#include "launcher/transport/link/attach_failure.h"
#include "launcher/transport/ssh/session.h"

namespace muster {

namespace {

using Endpoints = std::vector<boost::asio::ip::tcp::endpoint>;
using ResolveResult = std::variant<Endpoints, LinkFailure>;

// The node is not to blame.
std::string no_descriptors_text() {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  return "this host lets muster have " + std::to_string(limit.rlim_cur) +
         " open files, too few for a connection to each node and a log of each rank; raise the "
         "hard limit (ulimit -Hn, LimitNOFILE), then restart the controller";
}

LinkFailure unresolved(const std::string& host, int error) {
  const bool passing = error == EAI_AGAIN;
  return {passing ? LinkFailureKind::unreachable : LinkFailureKind::unknown_host,
          host + ": the name does not resolve (" + ::gai_strerror(error) +
              "); check its spelling in the cluster file, or give an address"};
}

ResolveResult look_up(const std::string& host, int port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_ADDRCONFIG;
  addrinfo* list = nullptr;
  const int error = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &list);
  if (error != 0) return unresolved(host, error);
  Endpoints endpoints;
  for (const addrinfo* each = list; each != nullptr; each = each->ai_next) {
    boost::asio::ip::tcp::endpoint endpoint;
    if (each->ai_addrlen > endpoint.capacity()) continue;
    endpoint.resize(each->ai_addrlen);
    std::memcpy(endpoint.data(), each->ai_addr, each->ai_addrlen);
    endpoints.push_back(endpoint);
  }
  ::freeaddrinfo(list);
  return endpoints;
}

}  // namespace

// What all attempts of a transport share.
struct SshContext {
  SshContext(boost::asio::io_context& the_io, SshSettings the_settings,
             std::shared_ptr<PushGate> the_pushes)
      : io(the_io),
        settings(std::move(the_settings)),
        host_keys(settings.own_known_hosts),
        gate(std::make_shared<HandshakeGate>(the_io)),
        pushes(std::move(the_pushes)),
        jitter(settings.jitter_seed) {}
  ~SshContext() {  // waits for the look-ups that run, drops those that wait
    resolvers.stop();
    resolvers.join();
  }

  boost::asio::io_context& io;
  SshSettings settings;
  HostKeyStore host_keys;
  boost::asio::thread_pool resolvers{4};  // they wait on a name server, and cost no CPU
  std::shared_ptr<HandshakeGate> gate;
  std::shared_ptr<PushGate> pushes;
  std::mt19937_64 jitter;
};

namespace {

// Names to addresses without holding up the one thread: getaddrinfo runs on a few helper threads.
// Addresses in numbers are answered without one. `done` comes from the io_context.
void resolve(SshContext& context, const std::string& host, int port,
             std::function<void(ResolveResult)> done) {
  boost::system::error_code not_numbers;
  const auto address = boost::asio::ip::make_address(host, not_numbers);
  if (!not_numbers) {
    const Endpoints endpoints{{address, static_cast<unsigned short>(port)}};
    boost::asio::post(context.io, [done = std::move(done), endpoints] { done(endpoints); });
    return;
  }
  // The guard keeps the io_context running until the answer is in.
  auto guard = boost::asio::make_work_guard(context.io);
  boost::asio::post(context.resolvers, [host, port, done = std::move(done), guard]() mutable {
    auto result = look_up(host, port);
    boost::asio::post(guard.get_executor(),
                      [done = std::move(done), result = std::move(result)] { done(result); });
  });
}

}  // namespace

using SshConnectResult = std::variant<Connected, LinkFailure, LoginNeedsOpenssh>;

// One attempt to reach one node, from name to agent.
//
//   Resolving ──► Queued ──► Connecting ──► LoggingIn ──► Attaching ──► Done
//                   ▲                           │
//                   └──────── Pausing ◄─────────┘ dropped by sshd, up to `retries` times
//
// Every state can end in a LinkFailure.
class SshConnect : public std::enable_shared_from_this<SshConnect> {
 public:
  SshConnect(std::shared_ptr<SshContext> context, const SshTarget& target,
             const AgentLaunch& launch, std::function<void(SshConnectResult)> done)
      : context_(std::move(context)), target_(target), launch_(launch), done_(std::move(done)) {
    if (node_.user.empty()) node_.user = context_->settings.user;
    if (node_.host.empty()) node_.host = node_.id.value;
  }

  void begin();
  void cancel();  // nothing is called any more

 private:
  struct Resolving {};
  struct Queued {};  // at the gate
  struct Connecting {
    std::shared_ptr<SshSession> session;
    HandshakeGate::Pass pass;
  };
  struct LoggingIn {
    std::shared_ptr<SshSession> session;
    HandshakeGate::Pass pass;
    std::shared_ptr<void> login;
  };
  struct Attaching {
    std::shared_ptr<AgentAttach> attach;
  };
  struct Pausing {};
  struct Done {};
  using State = std::variant<Resolving, Queued, Connecting, LoggingIn, Attaching, Pausing, Done>;

  // Sets the one timer. `late` and `advice`: for the sentence when it ends; a pause just ends.
  void enter(State state, std::optional<Milliseconds> limit = {}, const std::string& late = "",
             const std::string& advice = "");
  void timed_out();
  const ConnectSettings& limits() const { return launch_.connect; }
  void resolved(ResolveResult result);
  void wait_for_gate();
  void connect_tcp(HandshakeGate::Pass pass);
  void try_address(std::size_t index);
  void connected();
  void not_connected(boost::system::error_code error, bool is_answer);
  void log_in();
  void logged_in(const LoginResult& result);
  void dropped(const std::string& reason);
  void attach(std::shared_ptr<SshSession> session);
  void attached(AttachResult result);
  void fail(LinkFailureKind kind, const std::string& message, bool is_denied = false);
  std::string reported_contact();
  void finish(SshConnectResult result);

  template <class Call>
  auto guarded(Call call) {
    return [weak = weak_from_this(), call](auto&&... arguments) {
      const auto self = weak.lock();
      if (self && self->done_) {
        std::invoke(call, *self, std::forward<decltype(arguments)>(arguments)...);
      }
    };
  }

  std::shared_ptr<SshContext> context_;
  SshTarget target_;
  NodeAddress& node_ = target_.node;
  AgentLaunch launch_;
  std::function<void(SshConnectResult)> done_;
  std::unique_ptr<Alarm> timer_;
  LoginReport report_;
  std::string methods_;
  std::optional<std::chrono::microseconds> round_trip_;
  Endpoints endpoints_;
  State state_;
  std::string late_;
  int drops_ = 0;
};

void SshConnect::enter(State state, std::optional<Milliseconds> limit, const std::string& late,
                       const std::string& advice) {
  state_ = std::move(state);
  if (!limit) return timer_.reset();
  late_ = late + " after " + std::to_string(limit->count() / 1000) + " s; " + advice;
  timer_ = call_after(context_->io, *limit, guarded(&SshConnect::timed_out));
}

void SshConnect::timed_out() {
  if (std::holds_alternative<Pausing>(state_)) return wait_for_gate();
  fail(LinkFailureKind::unreachable, late_);
}

void SshConnect::begin() {
  enter(Resolving{}, limits().resolve_timeout, "the name service did not answer for " + node_.host,
        "see /etc/resolv.conf, or give an address in the cluster file");
  resolve(*context_, node_.host, node_.port, guarded(&SshConnect::resolved));
}

void SshConnect::resolved(ResolveResult result) {
  if (auto* failure = std::get_if<LinkFailure>(&result)) {
    return fail(failure->kind, failure->message);
  }
  report_.phases.finish("resolve");
  endpoints_ = std::get<Endpoints>(std::move(result));
  if (endpoints_.empty()) return fail(LinkFailureKind::unknown_host, "host name does not resolve");
  wait_for_gate();
}

void SshConnect::wait_for_gate() {
  enter(Queued{});
  const auto& endpoint = endpoints_.front();
  const std::string address =
      endpoint.address().to_string() + ":" + std::to_string(endpoint.port());
  context_->gate->enter(address, {limits().handshakes, limits().unauthenticated_per_host},
                        guarded(&SshConnect::connect_tcp));
}

void SshConnect::connect_tcp(HandshakeGate::Pass pass) {
  report_.phases.restart();
  const auto session = std::make_shared<SshSession>(context_->io);
  enter(Connecting{session, std::move(pass)}, limits().tcp_timeout,
        "no answer on port " + std::to_string(node_.port),
        "is the node on, and is there a firewall in between?");
  try_address(0);
}

// Each address of the host in turn; what the last one met counts.
void SshConnect::try_address(std::size_t index) {
  const auto session = std::get<Connecting>(state_).session;
  auto& socket = session->socket();
  boost::system::error_code error;
  socket.close(error);
  if (socket.open(endpoints_[index].protocol(), error)) return not_connected(error, false);
  keep_network_errors(socket.native_handle(), true);
  // Asio looks at the socket before it calls, also when it was closed.
  socket.async_connect(
      endpoints_[index],
      guarded([session, index](SshConnect& self, boost::system::error_code failed) {
        if (!failed) return self.connected();
        if (index + 1 < self.endpoints_.size()) return self.try_address(index + 1);
        const bool is_open = session->socket().is_open();
        self.not_connected(failed, is_open && !was_nobody_there(session->socket().native_handle()));
      }));
}

// `is_answer`: somebody else has said so, the host or a router.
void SshConnect::not_connected(boost::system::error_code error, bool is_answer) {
  if (error == boost::asio::error::connection_refused) {
    return fail(LinkFailureKind::unreachable,
                "port " + std::to_string(node_.port) + " refuses connections; does sshd run there?",
                true);
  }
  if (error == boost::asio::error::no_descriptors) {
    return fail(LinkFailureKind::unreachable, "not queried: " + no_descriptors_text());
  }
  const bool is_denied = error == boost::asio::error::connection_reset ||
                         (error == boost::asio::error::host_unreachable && is_answer);
  fail(LinkFailureKind::unreachable,
       "cannot connect to port " + std::to_string(node_.port) + ": " + error.message() +
           "; check the network",
       is_denied);
}

void SshConnect::connected() {
  keep_network_errors(std::get<Connecting>(state_).session->socket().native_handle(), false);
  report_.phases.finish("tcp");
  log_in();
}

void SshConnect::log_in() {
  auto& [session, pass] = std::get<Connecting>(state_);
  session->begin(limits().silence);
  auto login = begin_login(session, target_, context_->settings, context_->host_keys, report_,
                           guarded(&SshConnect::logged_in));
  enter(LoggingIn{session, std::move(pass), std::move(login)}, limits().login_timeout,
        "login timed out", "is the node overloaded, or its name service slow?");
}

void SshConnect::logged_in(const LoginResult& result) {
  auto& now = std::get<LoggingIn>(state_);
  now.login.reset();  // the session is nobody's
  if (const auto* drop = std::get_if<LoginDropped>(&result)) return dropped(drop->reason);
  if (const auto* other = std::get_if<LoginNeedsOpenssh>(&result)) return finish(*other);
  if (const auto* failure = std::get_if<LinkFailure>(&result)) return finish(*failure);
  now.pass.reset();
  attach(now.session);
}

void SshConnect::dropped(const std::string& reason) {
  if (++drops_ > limits().retries) {
    return fail(LinkFailureKind::unreachable,
                "sshd closed " + std::to_string(drops_) + " connections before login (" + reason +
                    "); see its log there, and MaxStartups in sshd_config",
                std::get<LoggingIn>(state_).session->was_closed_by_host());
  }
  enter(Pausing{}, pause_after_drops(drops_, context_->jitter));
}

void SshConnect::attach(std::shared_ptr<SshSession> session) {
  methods_ = session->methods();
  round_trip_ = tcp_round_trip(session->handle());
  enter(Attaching{attach_agent(context_->io, make_ssh_shell(std::move(session)), context_->pushes,
                               node_, launch_, nullptr, guarded(&SshConnect::attached))});
}

void SshConnect::attached(AttachResult result) {
  ConnectResult linked = as_link(context_->io, std::move(result), node_);
  if (auto* failure = std::get_if<LinkFailure>(&linked)) return finish(std::move(*failure));
  auto& agent = std::get<Connected>(linked);
  report_.phases.append(agent.profile);
  agent.profile = report_.phases.profile();
  agent.methods = std::move(methods_);
  agent.round_trip = round_trip_;
  agent.first_contact = reported_contact();
  finish(std::move(agent));
}

void SshConnect::fail(LinkFailureKind kind, const std::string& message, bool is_denied) {
  finish(LinkFailure{kind, describe(node_) + ": " + message, false, is_denied});
}

// Once: the next login finds the key on record.
std::string SshConnect::reported_contact() {
  const auto pinned = std::exchange(report_.first_contact, std::nullopt);
  return pinned ? first_contact_text(node_, *pinned) : "";
}

void SshConnect::finish(SshConnectResult result) {
  if (auto* failure = std::get_if<LinkFailure>(&result)) {
    const std::string contact = reported_contact();
    if (!contact.empty()) failure->message += " (" + contact + ")";
  }
  const auto done = std::exchange(done_, nullptr);
  cancel();
  done(std::move(result));
}

void SshConnect::cancel() {
  done_ = nullptr;
  if (auto* connecting = std::get_if<Connecting>(&state_)) connecting->session->close("given up");
  if (auto* login = std::get_if<LoggingIn>(&state_)) {
    login->login.reset();
    login->session->close("given up");
  }
  if (auto* attaching = std::get_if<Attaching>(&state_)) attaching->attach->cancel();
  enter(Done{});
}

SshTransport::SshTransport(boost::asio::io_context& io, SshSettings settings,
                           std::shared_ptr<PushGate> pushes, Fallback fallback)
    : context_(std::make_shared<SshContext>(io, std::move(settings), std::move(pushes))),
      fallback_(std::move(fallback)) {}

SshTransport::~SshTransport() = default;

void SshTransport::connect(const SshTarget& target, const AgentLaunch& launch, ConnectDone done) {
  const auto deliver = [this, target, launch, done = std::move(done)](SshConnectResult result) {
    if (auto* connected = std::get_if<Connected>(&result)) return done(std::move(*connected));
    if (auto* failure = std::get_if<LinkFailure>(&result)) return done(std::move(*failure));
    if (fallback_) return fallback_(target, launch, done);
    done(std::get<LoginNeedsOpenssh>(std::move(result)).otherwise);
  };
  const auto make = [&](std::function<void(SshConnectResult)> call) {
    return std::make_shared<SshConnect>(context_, target, launch, std::move(call));
  };
  active_.add(make, deliver)->begin();
}

}  // namespace muster
