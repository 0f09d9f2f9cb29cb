// The controller's end of one relay: opens Links that the relay carries, and notices when it is
// gone or stands still. Owned by the fan-out, on the controller's thread; callbacks come from the
// link's or the timers' handlers.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "launcher/os/timers.h"
#include "launcher/transport/link/transport.h"
#include "launcher/wire/frame.h"
#include "launcher/wire/relay_message.h"

namespace muster {

// Tells of its own end.
class WatchedLink final : public Link {
 public:
  WatchedLink(std::shared_ptr<Link> link, std::function<void()> gone)
      : link_(std::move(link)), gone_(std::move(gone)) {}
  ~WatchedLink() override { gone_(); }
  void start(Handlers handlers) override { link_->start(std::move(handlers)); }
  void write(std::string bytes) override { link_->write(std::move(bytes)); }
  std::size_t queued_bytes() const override { return link_->queued_bytes(); }

 private:
  std::shared_ptr<Link> link_;
  std::function<void()> gone_;
};

// One Link that a relay carries, as its RelayClient and its owner share it: what waits for room at
// the relay, and what has come before anybody listened.
class RelayStream final : public Link, public std::enable_shared_from_this<RelayStream> {
 public:
  using Send = std::function<void(const ToRelay&, std::string_view payload)>;

  RelayStream(Timers& timers, std::int64_t ticket, std::string peer, Send send)
      : timers_(timers), ticket_(ticket), peer_(std::move(peer)), send_(std::move(send)) {}
  const std::string& peer() const { return peer_; }

  // The owner's side.
  void start(Handlers handlers) override;
  void write(std::string bytes) override;
  std::size_t queued_bytes() const override { return queued_bytes_ + unacknowledged_; }
  void abandon();  // nothing is called any more

  // The client's side.
  void bytes(std::string payload);
  void more_room(std::int64_t bytes);
  void closed(LinkFailure failure);

 private:
  void pump();
  void deliver(std::string payload);

  Timers& timers_;
  std::int64_t ticket_;
  std::string peer_;  // for messages
  Send send_;
  std::optional<Handlers> handlers_;  // none: not started, or over
  bool is_listening_ = false;
  std::deque<std::string> queue_;
  std::size_t sent_of_front_ = 0;
  std::size_t queued_bytes_ = 0;
  std::size_t unacknowledged_ = 0;  // at the relay, for all we know
  std::int64_t room_ = relay_window_bytes;
  std::int64_t consumed_ = 0;  // not told to the relay yet
  std::string early_;
  std::optional<LinkFailure> early_end_;
};

class RelayClient : public std::enable_shared_from_this<RelayClient> {
 public:
  // `parent` is the node the relay runs on; `link` leads to it and is not started yet. Unanswered
  // for `silence` it counts as lost. `on_lost` is called once, after every link and connect has
  // heard of it.
  RelayClient(Timers& timers, NodeId parent, Milliseconds silence, std::unique_ptr<Link> link,
              std::function<void()> on_lost);

  void start();
  // As Transport::connect. The link lives as long as its owner, the relay or the node does.
  void connect(const NodeAddress& node, const AgentLaunch& launch, ConnectDone done);
  bool is_lost() const { return !link_; }
  bool is_idle() const { return carried_.empty() && opening_.empty(); }
  int nodes() const;  // reached through it or being so; not the relays on these

 private:
  struct Opening {
    NodeAddress node;
    bool is_relay = false;
    ConnectDone done;
  };

  struct Carried {
    std::shared_ptr<RelayStream> stream;
    bool is_relay = false;
  };

  void receive(std::span<const std::byte> bytes);
  void on(const RelayConnected& connected, std::string&&);
  void on(const RelayClosed& closed, std::string&&);
  void on(const RelayBytes& bytes, std::string&& payload);
  void on(const RelayRoom& room, std::string&&);
  void on(const RelayPing&, std::string&&) {}

  void send(const ToRelay& message, std::string_view payload = {});
  void refuse(std::int64_t ticket, LinkFailure failure);
  std::unique_ptr<Link> open_link(std::int64_t ticket, const Opening& opening);
  LinkFailure by_way(LinkFailure failure) const;
  void beat();
  void lose(const std::string& why);

  Timers& timers_;
  NodeId parent_;
  Milliseconds silence_;
  std::unique_ptr<Link> link_;  // null: lost
  std::function<void()> on_lost_;
  FrameReader reader_;
  std::unique_ptr<Alarm> heartbeat_;
  int unanswered_ = 0;  // beats since the relay's last word
  std::int64_t next_ticket_ = 1;
  std::map<std::int64_t, Opening> opening_;
  std::map<std::int64_t, Carried> carried_;
};

}  // namespace muster
