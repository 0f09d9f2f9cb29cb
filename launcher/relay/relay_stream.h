// One Link that a relay carries, as its RelayClient and its owner share it: what waits for room at
// the relay, and what has come before anybody listened. Private to launcher/relay; one thread.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "launcher/os/timers.h"
#include "launcher/transport/link/transport.h"
#include "launcher/wire/relay_message.h"

namespace muster {

class RelayStream : public std::enable_shared_from_this<RelayStream> {
 public:
  using Send = std::function<void(const ToRelay&, std::string_view payload)>;

  RelayStream(Timers& timers, std::int64_t ticket, std::string peer, Send send)
      : timers_(timers), ticket_(ticket), peer_(std::move(peer)), send_(std::move(send)) {}
  const std::string& peer() const { return peer_; }

  // The owner's side.
  void start(Link::Handlers handlers);
  void write(std::string bytes);
  std::size_t queued_bytes() const { return queued_bytes_ + unacknowledged_; }
  void abandon();  // nothing is called any more

  // The client's side.
  void bytes(std::string payload);
  void more_room(std::int64_t bytes);
  void closed(LinkFailure failure);

 private:
  void pump();
  void deliver(std::string payload);
  void deliver_early();

  Timers& timers_;
  std::int64_t ticket_;
  std::string peer_;  // for messages
  Send send_;
  std::optional<Link::Handlers> handlers_;  // none: not started, or over
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

}  // namespace muster
