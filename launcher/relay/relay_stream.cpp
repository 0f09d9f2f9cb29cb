#include "launcher/relay/relay_stream.h"

#include <algorithm>
#include <utility>

namespace muster {
namespace {

constexpr std::size_t piece_bytes = 64 * 1024;  // then another ticket has its turn
// Told in a few pieces a window, not with every line.
constexpr std::int64_t told_room_bytes = relay_window_bytes / 4;

}  // namespace

void RelayStream::start(Link::Handlers handlers) {
  handlers_ = std::move(handlers);
  timers_.post([self = shared_from_this()] { self->deliver_early(); });
}

void RelayStream::deliver_early() {
  is_listening_ = true;
  if (!early_.empty()) deliver(std::exchange(early_, {}));
  if (early_end_) closed(*std::exchange(early_end_, std::nullopt));
}

void RelayStream::write(std::string bytes) {
  if (bytes.empty()) return;
  queued_bytes_ += bytes.size();
  queue_.push_back(std::move(bytes));
  pump();
}

void RelayStream::pump() {
  while (room_ > 0 && !queue_.empty()) {
    const std::string_view rest = std::string_view(queue_.front()).substr(sent_of_front_);
    const std::size_t count =
        std::min({rest.size(), piece_bytes, static_cast<std::size_t>(room_)});
    send_(RelayBytes{ticket_}, rest.substr(0, count));
    room_ -= static_cast<std::int64_t>(count);
    queued_bytes_ -= count;
    unacknowledged_ += count;
    sent_of_front_ += count;
    if (sent_of_front_ < queue_.front().size()) continue;
    queue_.pop_front();
    sent_of_front_ = 0;
  }
}

void RelayStream::more_room(std::int64_t bytes) {
  const auto count = std::min(unacknowledged_, static_cast<std::size_t>(std::max<std::int64_t>(
                                                   0, bytes)));
  unacknowledged_ -= count;
  room_ += static_cast<std::int64_t>(count);
  pump();
}

void RelayStream::bytes(std::string payload) {
  if (is_listening_) return deliver(std::move(payload));
  early_ += payload;
}

// Room is told after the bytes are dealt with.
void RelayStream::deliver(std::string payload) {
  if (!handlers_) return;
  const auto self = shared_from_this();  // a handler may drop the link
  const auto on_bytes = handlers_->on_bytes;
  on_bytes(std::as_bytes(std::span(payload)));
  consumed_ += static_cast<std::int64_t>(payload.size());
  if (consumed_ < told_room_bytes || !handlers_) return;
  send_(RelayRoom{ticket_, std::exchange(consumed_, 0)}, {});
}

void RelayStream::closed(LinkFailure failure) {
  if (!is_listening_) {
    early_end_ = std::move(failure);
    return;
  }
  if (!handlers_) return;
  const auto on_closed = std::move(handlers_->on_closed);
  handlers_.reset();
  if (on_closed) on_closed(std::move(failure));
}

void RelayStream::abandon() {
  handlers_.reset();
  queue_.clear();
  queued_bytes_ = 0;
  send_ = [](const ToRelay&, std::string_view) {};
}

}  // namespace muster
