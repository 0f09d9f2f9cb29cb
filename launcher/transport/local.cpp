#include "launcher/transport/local.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>
#include <variant>
#include <vector>

#include <boost/asio/buffer.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>

#include "launcher/os/child.h"
#include "launcher/os/fd.h"
#include "launcher/transport/link/attach_failure.h"
#include "launcher/transport/link/byte_stream.h"
#include "launcher/transport/link/child_process.h"

namespace muster {

namespace {

constexpr int max_starting =
    32;  // a pretend cluster of hundreds starts in waves, not as a fork bomb
constexpr Seconds detach_timeout{10};  // from ready to the end of the process we started
constexpr std::chrono::milliseconds detach_interval{5};
constexpr int ready_descriptor = 3;

std::string expand(const std::string& home, const std::string& user_home) {
  if (home.empty()) return user_home + "/.muster";
  return home == "~" || home.starts_with("~/") ? user_home + home.substr(1) : home;
}

// Collects an `agent serve` that detached itself, or kills one that was given up.
class Reaper : public std::enable_shared_from_this<Reaper> {
 public:
  Reaper(boost::asio::io_context& io, pid_t child)
      : timer_(io), child_(child), until_(std::chrono::steady_clock::now() + detach_timeout) {}

  void wait() {
    if (::waitpid(child_, nullptr, WNOHANG) != 0) return;
    if (std::chrono::steady_clock::now() > until_)
      return;  // it stays our child: a foreground agent
    timer_.expires_after(detach_interval);
    timer_.async_wait([self = shared_from_this()](boost::system::error_code error) {
      if (!error) self->wait();
    });
  }

 private:
  boost::asio::steady_timer timer_;
  pid_t child_;
  std::chrono::steady_clock::time_point until_;
};

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
    stream_->start({std::move(handlers.on_bytes), [] {}, std::move(on_end)});
  }

  void write(std::string bytes) override { stream_->write(std::move(bytes)); }
  std::size_t queued_bytes() const override { return stream_->queued_bytes(); }

 private:
  std::shared_ptr<ByteStream> stream_;
  std::string peer_;
};

struct NobodyListens {};

// `<run_folder>/agent.sock`, whatever the length of the path; a socket of another user is an error.
std::variant<Fd, NobodyListens, Error> connect_agent_socket(const std::string& run_folder) {
  Fd socket = connect_unix(run_folder + "/agent.sock");
  if (!socket) {
    // Refused: the file of an agent that is gone.
    if (errno == ENOENT || errno == ECONNREFUSED) return NobodyListens{};
    return Error{run_folder + "/agent.sock: " + std::strerror(errno)};
  }
  if (peer_user(socket.get()) != ::geteuid()) {
    return Error{run_folder + "/agent.sock belongs to another user; remove it"};
  }
  return socket;
}

}  // namespace

class LocalConnect : public std::enable_shared_from_this<LocalConnect> {
 public:
  LocalConnect(boost::asio::io_context& io, const NodeAddress& node, const AgentLaunch& launch,
               Milliseconds start_timeout, std::function<void(ConnectResult)> done)
      : io_(io),
        node_(node),
        launch_(launch),
        start_timeout_(start_timeout),
        done_(std::move(done)),
        ready_(io),
        errors_(io),
        deadline_(io) {}

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
    boost::system::error_code ignored;
    ready_.close(ignored);
    errors_.close(ignored);
    deadline_.cancel();
    pass_.reset();
  }

 private:
  template <class Call>
  auto guarded(Call call) {
    return [weak = weak_from_this(), call](auto... arguments) {
      const auto self = weak.lock();
      if (self && self->done_) call(*self, arguments...);
    };
  }

  std::string run_folder() const {
    return launch_.home + "/run/" + launch_.controller_id + "/" + node_.id.value;
  }

  // False: nobody listens.
  bool connect() {
    auto result = connect_agent_socket(run_folder());
    if (std::holds_alternative<NobodyListens>(result)) return false;
    if (const auto* error = std::get_if<Error>(&result)) {
      fail(error->message);
      return true;
    }
    phases_.finish("agent");
    using Protocol = boost::asio::local::stream_protocol;
    Protocol::socket socket(io_, Protocol(), std::get<Fd>(result).release());
    finish(Connected{std::make_unique<StreamLink>(std::move(socket), node_.id.value),
                     phases_.profile()});
    return true;
  }

  void start_agent() {
    const Result<pid_t> child = spawn_agent();
    if (!child) return fail(child.error().message);
    child_ = *child;
    deadline_.expires_after(start_timeout_);
    deadline_.async_wait(guarded([](LocalConnect& self, boost::system::error_code error) {
      if (!error) self.gave_up();
    }));
    read_errors();
    ready_.async_read_some(boost::asio::buffer(ready_byte_),
                           guarded([](LocalConnect& self, boost::system::error_code error,
                                      std::size_t) { self.agent_spoke(!error); }));
  }

  Result<pid_t> spawn_agent() {
    int ready[2], errors[2];
    if (::pipe2(ready, O_CLOEXEC) != 0) return Error{"no pipe: too many open files"};
    Fd ready_reader(ready[0]), ready_writer(ready[1]);
    if (::pipe2(errors, O_CLOEXEC) != 0) return Error{"no pipe: too many open files"};
    Fd error_reader(errors[0]), error_writer(errors[1]);
    const std::vector<std::string> argv{launch_.binary,
                                        "agent",
                                        "serve",
                                        "--home",
                                        launch_.home,
                                        "--controller",
                                        launch_.controller_id,
                                        "--node",
                                        node_.id.value,
                                        "--ready-fd",
                                        std::to_string(ready_descriptor)};
    const std::array inherited{Inherit{ready_writer.get(), ready_descriptor},
                               Inherit{error_writer.get(), 2}};
    const Result<pid_t> child = spawn(argv, inherited);
    if (!child) return child.error();
    ready_.assign(ready_reader.release());
    errors_.assign(error_reader.release());
    return *child;
  }

  void read_errors() {
    errors_.async_read_some(
        boost::asio::buffer(error_buffer_),
        guarded([](LocalConnect& self, boost::system::error_code error, std::size_t size) {
          if (!error) {
            self.said_.add({self.error_buffer_.data(), size});
            return self.read_errors();
          }
          self.errors_ended_ = true;
          if (self.failed_) self.fail_start();
        }));
  }

  void agent_spoke(bool is_ready) {
    std::make_shared<Reaper>(io_, child_)->wait();
    if (!is_ready) {
      failed_ = true;  // its reason may still be in the other pipe
      if (errors_ended_) fail_start();
      return;
    }
    if (!connect()) fail("the agent said that it is ready, but nobody listens in " + run_folder());
  }

  void gave_up() {
    kill_and_reap(child_);
    fail("the agent did not start within " + std::to_string(start_timeout_.count()) + " ms" +
         said());
  }

  void fail_start() {
    fail("the agent did not start" + said() + "; see also its log in " + run_folder());
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
  std::function<void(ConnectResult)> done_;
  HandshakeGate::Pass pass_;
  PhaseTimer phases_;
  pid_t child_ = 0;
  boost::asio::posix::stream_descriptor ready_;
  boost::asio::posix::stream_descriptor errors_;
  std::array<char, 1> ready_byte_{};
  std::array<char, 1024> error_buffer_{};
  Tail said_{kept_error_bytes};
  bool failed_ = false;
  bool errors_ended_ = false;
  boost::asio::steady_timer deadline_;
};

LocalTransport::LocalTransport(boost::asio::io_context& io, std::string user_home,
                               Milliseconds start_timeout)
    : io_(io),
      user_home_(std::move(user_home)),
      start_timeout_(start_timeout),
      gate_(std::make_shared<HandshakeGate>(io)),
      pushes_(std::make_shared<PushGate>(io)) {}

LocalTransport::~LocalTransport() = default;

void LocalTransport::connect(const NodeAddress& node, const AgentLaunch& asked,
                             std::function<void(ConnectResult)> done) {
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
  const auto make = [&](std::function<void(ConnectResult)> call) {
    return std::make_shared<LocalConnect>(io_, node, launch, start_timeout_, std::move(call));
  };
  const auto attempt = active_.add(make, std::move(done));
  gate_->enter(node.id.value, {max_starting, max_starting},
               [weak = std::weak_ptr(attempt)](HandshakeGate::Pass pass) {
                 if (const auto each = weak.lock()) each->begin(std::move(pass));
               });
}

}  // namespace muster
