#include "launcher/transport/local.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include <boost/asio/io_context.hpp>

#include "launcher/os/fd.h"
#include "launcher/os/timers.h"
#include "launcher/transport/link/attach_failure.h"
#include "launcher/transport/link/byte_stream.h"
#include "launcher/transport/link/child_process.h"

namespace muster {

namespace {

constexpr int max_starting =
    32;  // a pretend cluster of hundreds starts in waves, not as a fork bomb

std::string expand(const std::string& home, const std::string& user_home) {
  if (home.empty()) return user_home + "/.muster";
  return home == "~" || home.starts_with("~/") ? user_home + home.substr(1) : home;
}

class StreamLink final : public Link {
 public:
  StreamLink(boost::asio::local::stream_protocol::socket socket, std::string peer)
      : stream_(std::make_shared<ByteStream>(std::move(socket))), peer_(std::move(peer)) {}
  ~StreamLink() override { stream_->close(); }

  void start(Handlers handlers) override {
    auto on_end = [peer = peer_,
                   on_closed = std::move(handlers.on_closed)](const std::string& reason) {
      if (!on_closed) return;
      on_closed({LinkFailureKind::lost, peer + ": the agent closed the connection" +
                                            (reason.empty() ? "" : ": " + reason)});
    };
    stream_->start({std::move(handlers.on_bytes), nullptr, std::move(on_end)});
  }

  void write(std::string bytes) override { stream_->write(std::move(bytes)); }
  std::size_t queued_bytes() const override { return stream_->queued_bytes(); }

 private:
  std::shared_ptr<ByteStream> stream_;
  std::string peer_;
};

// `<run_folder>/agent.sock`, whatever the length of the path; a socket of another user is an error.
// Nothing: nobody listens.
Result<std::optional<Fd>> connect_agent_socket(const std::string& run_folder) {
  Fd socket = connect_unix(run_folder + "/agent.sock");
  if (!socket) {
    // Refused: the file of an agent that is gone.
    if (errno == ENOENT || errno == ECONNREFUSED) return std::optional<Fd>();
    return Error{run_folder + "/agent.sock: " + std::strerror(errno)};
  }
  if (peer_user(socket.get()) != ::geteuid()) {
    return Error{run_folder + "/agent.sock belongs to another user; remove it"};
  }
  return std::optional(std::move(socket));
}

}  // namespace

class LocalConnect : public std::enable_shared_from_this<LocalConnect> {
 public:
  LocalConnect(boost::asio::io_context& io, const NodeAddress& node, const AgentLaunch& launch,
               Milliseconds start_timeout, ConnectDone done)
      : io_(io),
        node_(node),
        launch_(launch),
        start_timeout_(start_timeout),
        done_(std::move(done)) {}

  void begin(HandshakeGate::Pass pass) {
    pass_ = std::move(pass);
    const std::string& name = node_.id.value;
    if (name.empty() || name == "." || name == ".." || name.find('/') != name.npos) {
      return fail("'" + name + "' is no name for a folder; name the node differently");
    }
    phases_.restart();
    if (!connect()) start_agent();
  }

  void cancel() {
    done_ = nullptr;
    deadline_.reset();
    process_.reset();
    pass_.reset();
  }

 private:
  std::string run_folder() const {
    return launch_.home + "/run/" + launch_.controller_id + "/" + node_.id.value;
  }

  // False: nobody listens.
  bool connect() {
    auto result = connect_agent_socket(run_folder());
    if (result && !*result) return false;
    if (!result) {
      fail(result.error().message);
      return true;
    }
    phases_.finish("agent");
    using Protocol = boost::asio::local::stream_protocol;
    Protocol::socket socket(io_, Protocol(), (*result)->release());
    finish(Connected{std::make_unique<StreamLink>(std::move(socket), node_.id.value),
                     phases_.profile()});
    return true;
  }

  void start_agent() {
    const std::vector<std::string> argv{
        launch_.binary,        "agent",  "serve",       "--home", launch_.home, "--controller",
        launch_.controller_id, "--node", node_.id.value};
    const auto weak = weak_from_this();
    deadline_ = call_after(io_, start_timeout_, while_alive(weak, &LocalConnect::gave_up));
    process_ = start_child(io_, argv);
    const auto hear = [](LocalConnect& self, std::string_view text) { self.said_.add(text); };
    process_->handle(
        {nullptr, while_alive(weak, hear), nullptr, while_alive(weak, &LocalConnect::ended)});
  }

  void ended(const RemoteExit& exit) {
    if (exit.status != 0) {
      return fail("the agent did not start" + (exit.status ? "" : " (" + exit.reason + ")") +
                  said() + "; see also its log in " + run_folder());
    }
    if (!connect()) fail("the agent said that it is ready, but nobody listens in " + run_folder());
  }

  void gave_up() {
    fail("the agent did not start within " + std::to_string(start_timeout_.count()) + " ms" +
         said());
  }

  std::string said() const {
    const std::string line = last_line(said_.text());
    return line.empty() ? "" : ", it said: " + line;
  }

  void fail(const std::string& message) {
    finish(LinkFailure{LinkFailureKind::shell, node_.id.value + ": " + message});
  }

  void finish(ConnectResult result) {
    const auto done = std::exchange(done_, nullptr);
    cancel();
    done(std::move(result));
  }

  boost::asio::io_context& io_;
  NodeAddress node_;
  AgentLaunch launch_;
  Milliseconds start_timeout_;
  ConnectDone done_;
  HandshakeGate::Pass pass_;
  PhaseTimer phases_;
  std::unique_ptr<RemoteProcess> process_;  // `agent serve`, until the agent listens
  Tail said_{kept_error_bytes};
  std::unique_ptr<Alarm> deadline_;
};

LocalTransport::LocalTransport(boost::asio::io_context& io, std::string user_home,
                               Milliseconds start_timeout)
    : io_(io),
      user_home_(std::move(user_home)),
      start_timeout_(start_timeout),
      gate_(std::make_shared<HandshakeGate>(io)),
      pushes_(std::make_shared<PushGate>(io)) {}

LocalTransport::~LocalTransport() = default;

void LocalTransport::connect(const NodeAddress& node, const AgentLaunch& asked, ConnectDone done) {
  AgentLaunch launch = asked;
  launch.home = expand(launch.home, user_home_);
  if (launch.service == AgentService::relay) {
    const auto make = [&](std::function<void(AttachResult)> call) {
      return attach_agent(io_, make_local_shell(io_), pushes_, node, launch, nullptr,
                          std::move(call));
    };
    starting_relays_.add(make, [&io = io_, node, done = std::move(done)](AttachResult result) {
      done(as_link(io, std::move(result), node));
    });
    return;
  }
  const auto make = [&](ConnectDone call) {
    return std::make_shared<LocalConnect>(io_, node, launch, start_timeout_, std::move(call));
  };
  const auto attempt = active_.add(make, std::move(done));
  gate_->enter(node.id.value, {max_starting, max_starting},
               [weak = std::weak_ptr(attempt)](HandshakeGate::Pass pass) {
                 if (const auto each = weak.lock()) each->begin(std::move(pass));
               });
}

}  // namespace muster
