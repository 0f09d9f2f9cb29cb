#include "launcher/transport/link/agent_attach.h"

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>

#include "launcher/os/timers.h"
#include "launcher/transport/link/attach_failure.h"

namespace muster {
namespace {

constexpr Seconds shell_timeout{90};  // 64 logins with a heavy ~/.bashrc pile up for a minute
constexpr Seconds agent_timeout{30};  // the agent forks, opens a socket, replays a small spool
constexpr Seconds push_timeout{60};   // without progress: a piece, or the end on a slow disk
constexpr std::size_t max_noise_bytes = 64 * 1024;  // a message of the day, not a stream
constexpr std::size_t push_piece_bytes = 256 * 1024;

class Attach final : public AgentAttach, public std::enable_shared_from_this<Attach> {
 public:
  Attach(boost::asio::io_context& io, std::shared_ptr<RemoteShell> shell,
         std::shared_ptr<PushGate> gate, const NodeAddress& node, const AgentLaunch& launch,
         std::function<void()> on_shell, std::function<void(AttachResult)> done)
      : io_(io),
        shell_(std::move(shell)),
        gate_(std::move(gate)),
        node_(node),
        launch_(launch),
        on_shell_(std::move(on_shell)),
        done_(std::move(done)) {}

  void begin_shell();
  void cancel() override;

 private:
  enum class Step { shell, starting, leaving, waiting, pushing };

  void on_attach_output(std::span<const std::byte> bytes);
  void look_for_shell();
  void on_attach_exit(const RemoteExit& exit);
  void missing(std::string uname);
  void begin_push();
  void push_more();
  void on_push_exit(const RemoteExit& exit);
  void fail(LinkFailureKind kind, const std::string& message);
  void finish(AttachResult result);
  void set_deadline(Seconds timeout, const char* what);
  RemoteProcess::Handlers handlers(void (Attach::*on_output)(std::span<const std::byte>),
                                   void (Attach::*on_exit)(const RemoteExit&));
  void on_push_output(std::span<const std::byte> bytes);

  boost::asio::io_context& io_;
  std::shared_ptr<RemoteShell> shell_;
  std::shared_ptr<PushGate> gate_;
  NodeAddress node_;
  AgentLaunch launch_;
  std::function<void()> on_shell_;
  std::function<void(AttachResult)> done_;
  std::unique_ptr<Alarm> deadline_;
  PhaseTimer phases_;
  Step step_ = Step::shell;
  bool pushed_ = false;
  std::unique_ptr<RemoteProcess> process_;
  PushGate::Pass pass_;
  Binary binary_;
  std::size_t sent_bytes_ = 0;
  std::string output_;
  Tail errors_{kept_error_bytes};
};

RemoteProcess::Handlers Attach::handlers(void (Attach::*on_output)(std::span<const std::byte>),
                                         void (Attach::*on_exit)(const RemoteExit&)) {
  // The process is a member, so what it holds must not own this.
  const auto weak = weak_from_this();
  return {while_alive(weak, on_output),
          while_alive(weak, [](Attach& self, std::string_view text) { self.errors_.add(text); }),
          while_alive(weak,
                      [](Attach& self) {
                        if (self.step_ == Step::pushing) self.push_more();
                      }),
          while_alive(weak, on_exit)};
}

void Attach::begin_shell() {
  step_ = Step::shell;
  output_.clear();
  phases_.restart();
  set_deadline(shell_timeout, "the login shell did not run our command");
  process_ = shell_->run(attach_command(launch_, node_.id));
  process_->handle(handlers(&Attach::on_attach_output, &Attach::on_attach_exit));
}

// The agent itself may be the first to speak.
void Attach::look_for_shell() {
  const std::size_t script = output_.find(shell_marker);
  const std::size_t at = std::min(script, output_.find(attached_marker));
  if (at == std::string::npos) return;
  errors_.add(last_line(std::string_view(output_).substr(0, at)));
  output_.erase(0, at == script ? at + shell_marker.size() : at);
  step_ = Step::starting;
  phases_.finish("shell");
  set_deadline(agent_timeout, "muster's agent did not answer");
  if (on_shell_) on_shell_();
}

void Attach::on_attach_output(std::span<const std::byte> bytes) {
  output_ += text_of(bytes);
  if (step_ == Step::shell) look_for_shell();
  if (step_ == Step::starting) {
    const std::size_t attached = output_.find(attached_marker);
    if (attached != std::string::npos) {
      phases_.finish("agent");
      std::string first_bytes = output_.substr(attached + attached_marker.size());
      return finish(Attached{std::move(process_), std::move(first_bytes), phases_.profile()});
    }
    const std::size_t push = output_.find(push_marker);
    const std::size_t end = push == std::string::npos ? push : output_.find('\n', push);
    if (end != std::string::npos) {
      step_ = Step::leaving;
      return missing(output_.substr(push + push_marker.size(), end - push - push_marker.size()));
    }
  }
  if (output_.size() > max_noise_bytes) {
    fail(LinkFailureKind::shell,
         "the login shell printed more than 64 KiB before our command ran; silence its start "
         "files for shells without a terminal. It began: " +
             last_line(output_.substr(0, 200)));
  }
}

void Attach::on_attach_exit(const RemoteExit& exit) {
  if (step_ == Step::leaving || step_ == Step::waiting) return;
  const bool shell_started = step_ == Step::starting;
  if (!shell_started) return finish(NoShell{exit, output_, errors_.text()});
  finish(attach_failure(node_, exit, shell_started, output_, errors_.text()));
}

void Attach::missing(std::string uname) {
  if (pushed_) {
    return fail(LinkFailureKind::shell,
                "muster was copied but cannot be run there: is its home mounted noexec? Set "
                "remote_home to a directory that allows programs");
  }
  Result<Binary> binary = gate_->read(launch_.binary);
  if (!binary) return fail(LinkFailureKind::wrong_build, binary.error().message);
  const std::string mismatch = machine_mismatch(**binary, uname);
  if (!mismatch.empty()) {
    return fail(LinkFailureKind::wrong_build,
                mismatch + ": put a muster built for it on the node by hand");
  }
  binary_ = *binary;
  if (pass_) return begin_push();
  step_ = Step::waiting;
  deadline_.reset();  // those in front have their own
  gate_->enter(launch_.build_id, [self = shared_from_this()](auto pass, bool look_again) {
    if (!self->done_) return;
    self->pass_ = std::move(pass);
    look_again ? self->begin_shell() : self->begin_push();
  });
}

void Attach::begin_push() {
  step_ = Step::pushing;
  output_.clear();
  errors_ = Tail(kept_error_bytes);
  sent_bytes_ = 0;
  phases_.restart();
  process_ = shell_->run(push_command(launch_, binary_->size()));
  process_->handle(handlers(&Attach::on_push_output, &Attach::on_push_exit));
  push_more();
}

void Attach::push_more() {
  set_deadline(push_timeout, "copying muster to the node came to a stop, no progress");
  if (sent_bytes_ == binary_->size()) return;
  const std::size_t size = std::min(push_piece_bytes, binary_->size() - sent_bytes_);
  process_->write(binary_->substr(sent_bytes_, size));
  sent_bytes_ += size;
  if (sent_bytes_ == binary_->size()) process_->close_stdin();
}

void Attach::on_push_output(std::span<const std::byte> bytes) {
  output_ += text_of(bytes);
  if (output_.size() > max_noise_bytes) output_.erase(0, output_.size() - kept_error_bytes);
}

void Attach::on_push_exit(const RemoteExit& exit) {
  if (output_.find(pushed_marker) == std::string::npos) {
    return finish(push_failure(node_, exit, errors_.text()));
  }
  phases_.finish("push");
  pushed_ = true;
  gate_->succeeded(launch_.build_id);
  pass_.reset();
  begin_shell();
}

void Attach::set_deadline(Seconds timeout, const char* what) {
  const auto late = [timeout, what](Attach& self) {
    self.fail(LinkFailureKind::unreachable,  // load passes
              std::string(what) + " within " + std::to_string(timeout.count()) +
                  " s; log in by hand and look at ~/.bashrc and the load");
  };
  deadline_ = call_after(io_, timeout, while_alive(weak_from_this(), late));
}

void Attach::fail(LinkFailureKind kind, const std::string& message) {
  finish(LinkFailure{kind, describe(node_) + ": " + message});
}

void Attach::finish(AttachResult result) {
  const auto done = std::exchange(done_, nullptr);
  if (!done) return;
  cancel();
  done(std::move(result));
}

void Attach::cancel() {
  done_ = nullptr;
  on_shell_ = nullptr;
  deadline_.reset();
  process_.reset();
  pass_.reset();
  shell_.reset();
}

// Handlers may destroy the Link that calls them, so what they need lives apart from it.
struct Receiver {
  NodeAddress node;
  std::string early;  // came before `start`
  std::optional<RemoteExit> early_exit{};
  std::optional<Link::Handlers> handlers{};  // none: not started, or over
  Tail errors{kept_error_bytes};

  void take(std::span<const std::byte> bytes) {
    if (!handlers) {
      early += text_of(bytes);
      return;
    }
    const auto on_bytes = handlers->on_bytes;
    on_bytes(bytes);
  }
  void end(const RemoteExit& exit) {
    early_exit = exit;
    const auto over = std::exchange(handlers, std::nullopt);
    if (!over || !over->on_closed) return;
    over->on_closed(
        {LinkFailureKind::lost, describe(node) + ": " + attach_end_text(exit, errors.text())});
  }
  void begin(Link::Handlers wanted) {
    handlers = std::move(wanted);
    const std::string bytes = std::exchange(early, {});
    if (!bytes.empty()) take(std::as_bytes(std::span(bytes)));
    if (early_exit) end(*early_exit);
  }
};

class ProcessLink final : public Link {
 public:
  ProcessLink(boost::asio::io_context& io, std::unique_ptr<RemoteProcess> process,
              std::string first_bytes, const NodeAddress& node)
      : io_(io),
        receiver_(std::make_shared<Receiver>(Receiver{node, std::move(first_bytes)})),
        process_(std::move(process)) {
    process_->handle(
        {[receiver = receiver_](std::span<const std::byte> bytes) { receiver->take(bytes); },
         [receiver = receiver_](std::string_view text) { receiver->errors.add(text); }, [] {},
         [receiver = receiver_](const RemoteExit& exit) { receiver->end(exit); }});
  }
  ~ProcessLink() override { receiver_->handlers.reset(); }

  void start(Handlers handlers) override {
    boost::asio::post(io_, [weak = std::weak_ptr(receiver_), handlers = std::move(handlers)] {
      if (const auto receiver = weak.lock()) receiver->begin(handlers);
    });
  }
  void write(std::string bytes) override { process_->write(std::move(bytes)); }
  std::size_t queued_bytes() const override { return process_->queued_bytes(); }

 private:
  boost::asio::io_context& io_;
  std::shared_ptr<Receiver> receiver_;
  std::unique_ptr<RemoteProcess> process_;
};

}  // namespace

LinkFailure no_shell_failure(const NodeAddress& node, const NoShell& none) {
  return attach_failure(node, none.exit, false, none.output, none.errors);
}

std::shared_ptr<AgentAttach> attach_agent(boost::asio::io_context& io,
                                          std::shared_ptr<RemoteShell> shell,
                                          std::shared_ptr<PushGate> gate, const NodeAddress& node,
                                          const AgentLaunch& launch, std::function<void()> on_shell,
                                          std::function<void(AttachResult)> done) {
  auto attach = std::make_shared<Attach>(io, std::move(shell), std::move(gate), node, launch,
                                         std::move(on_shell), std::move(done));
  attach->begin_shell();
  return attach;
}

ConnectResult as_link(boost::asio::io_context& io, AttachResult result, const NodeAddress& node) {
  if (auto* failure = std::get_if<LinkFailure>(&result)) return std::move(*failure);
  if (const auto* none = std::get_if<NoShell>(&result)) return no_shell_failure(node, *none);
  auto& agent = std::get<Attached>(result);
  return Connected{std::make_unique<ProcessLink>(io, std::move(agent.process),
                                                 std::move(agent.first_bytes), node),
                   std::move(agent.profile)};
}

}  // namespace muster
