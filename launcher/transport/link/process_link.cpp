#include "launcher/transport/link/process_link.h"

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>

#include "launcher/transport/link/attach_failure.h"

namespace muster {
namespace {

// Handlers may destroy the Link that calls them, so what they need lives apart from it.
struct Receiver {
  Link::Handlers handlers;
  NodeAddress node;
  Tail errors{kept_error_bytes};
  bool alive = true;
};

std::string ending(const RemoteExit& exit) {
  if (!exit.status) return "the connection broke: " + exit.reason;
  return "the agent's attach command ended with exit code " + std::to_string(*exit.status);
}

void close(Receiver& receiver, const RemoteExit& exit) {
  receiver.alive = false;
  const std::string line = last_line(receiver.errors.text());
  const auto on_closed = std::move(receiver.handlers.on_closed);
  if (!on_closed) return;
  on_closed({LinkFailureKind::lost, describe(receiver.node) + ": " + ending(exit) +
                                        (line.empty() ? "" : ", it said: " + line)});
}

class ProcessLink final : public Link {
 public:
  ProcessLink(boost::asio::io_context& io, std::unique_ptr<RemoteProcess> process,
              std::string first_bytes, const NodeAddress& node)
      : io_(io),
        process_(std::move(process)),
        early_(std::make_shared<Early>()),
        receiver_(std::make_shared<Receiver>()) {
    receiver_->node = node;
    early_->bytes = std::move(first_bytes);
    keep_early_bytes();
  }

  ~ProcessLink() override { receiver_->alive = false; }

  void start(Handlers handlers) override {
    receiver_->handlers = std::move(handlers);
    process_->handle(live_handlers());
    boost::asio::post(io_, [receiver = receiver_, early = early_] {
      if (receiver->alive && !early->bytes.empty()) {
        receiver->handlers.on_bytes(std::as_bytes(std::span(early->bytes)));
      }
      if (receiver->alive && early->exit) close(*receiver, *early->exit);
    });
  }

  void write(std::string bytes) override { process_->write(std::move(bytes)); }
  std::size_t queued_bytes() const override { return process_->queued_bytes(); }

 private:
  // What came before `start`.
  struct Early {
    std::string bytes;
    std::optional<RemoteExit> exit;
  };

  void keep_early_bytes() {
    process_->handle({[early = early_](std::span<const std::byte> bytes) {
                        early->bytes.append(reinterpret_cast<const char*>(bytes.data()),
                                            bytes.size());
                      },
                      [receiver = receiver_](std::string_view text) { receiver->errors.add(text); },
                      [] {}, [early = early_](const RemoteExit& exit) { early->exit = exit; }});
  }

  RemoteProcess::Handlers live_handlers() {
    return {[receiver = receiver_](std::span<const std::byte> bytes) {
              if (receiver->alive) receiver->handlers.on_bytes(bytes);
            },
            [receiver = receiver_](std::string_view text) { receiver->errors.add(text); }, [] {},
            [receiver = receiver_](const RemoteExit& exit) {
              if (receiver->alive) close(*receiver, exit);
            }};
  }

  boost::asio::io_context& io_;
  std::unique_ptr<RemoteProcess> process_;
  std::shared_ptr<Early> early_;
  std::shared_ptr<Receiver> receiver_;
};

}  // namespace

std::unique_ptr<Link> make_process_link(boost::asio::io_context& io,
                                        std::unique_ptr<RemoteProcess> process,
                                        std::string first_bytes, const NodeAddress& node) {
  return std::make_unique<ProcessLink>(io, std::move(process), std::move(first_bytes), node);
}

}  // namespace muster
