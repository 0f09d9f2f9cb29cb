#include "launcher/relay/relay_client.h"

#include <algorithm>
#include <utility>

#include "launcher/transport/link/attach_failure.h"
#include "launcher/wire/message_codec.h"

namespace muster {
namespace {

// Silence is counted in beats, not seconds: this process may have stood still.
constexpr Milliseconds beat_interval{1000};
// More than any relay has to say.
constexpr std::size_t longest_header_bytes = 64 * 1024;
constexpr std::size_t longest_reason_bytes = 2000;
constexpr std::size_t piece_bytes = 64 * 1024;  // then another ticket has its turn
// Told in a few pieces a window, not with every line.
constexpr std::int64_t reported_room_bytes = relay_window_bytes / 4;
constexpr const char* lost_relay = ": the relay to it is gone";

// Sums of these are made without another look.
ConnectProfile believable(ConnectProfile profile) {
  constexpr std::size_t most_phases = 32;
  constexpr std::int64_t longest_us = std::chrono::microseconds(std::chrono::hours(24)).count();
  profile.resize(std::min(profile.size(), most_phases));
  for (PhaseTime& each : profile) {
    each.phase = shown_text(each.phase, longest_reason_bytes);
    each.us = std::clamp<std::int64_t>(each.us, 0, longest_us);
  }
  return profile;
}

}  // namespace

void RelayStream::start(Handlers handlers) {
  handlers_ = std::move(handlers);
  timers_.post([this, self = shared_from_this()] {
    is_listening_ = true;
    if (!early_.empty()) deliver(std::exchange(early_, {}));
    if (early_end_) closed(*std::exchange(early_end_, std::nullopt));
  });
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
    const std::size_t count = std::min({rest.size(), piece_bytes, static_cast<std::size_t>(room_)});
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
  const auto count =
      std::min(unacknowledged_, static_cast<std::size_t>(std::max<std::int64_t>(0, bytes)));
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
  if (consumed_ < reported_room_bytes || !handlers_) return;
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

RelayClient::RelayClient(Timers& timers, NodeId parent, Milliseconds silence,
                         std::unique_ptr<Link> link, std::function<void()> on_lost)
    : timers_(timers),
      parent_(std::move(parent)),
      silence_(silence),
      link_(std::move(link)),
      on_lost_(std::move(on_lost)) {}

void RelayClient::start() {
  const auto lost = [](RelayClient& self, const LinkFailure& why) { self.lose(why.message); };
  link_->start(
      {while_alive(weak_from_this(), &RelayClient::receive), while_alive(weak_from_this(), lost)});
  beat();
}

void RelayClient::beat() {
  if (!link_) return;
  if (unanswered_++ >= silence_ / beat_interval) {
    return lose("no response for " + std::to_string(silence_ / Seconds{1}) + " s");
  }
  send(RelayPing{});
  heartbeat_ = timers_.after(beat_interval, [this] { beat(); });
}

void RelayClient::send(const ToRelay& message, std::string_view payload) {
  if (link_) link_->write(encode(message, payload));
}

void RelayClient::receive(std::span<const std::byte> bytes) {
  const auto self = shared_from_this();
  unanswered_ = 0;
  reader_.feed(bytes);
  while (link_) {
    auto frame = reader_.next();
    if (!frame) return lose(frame.error().message);
    if (!*frame) return;
    if ((**frame).header.size() > longest_header_bytes)
      return lose("unexpected message from relay");
    auto message = decode<FromRelay>(std::move(**frame));
    if (!message) return lose(message.error().message);
    std::visit([&](const auto& each) { on(each, std::move(message->payload)); }, message->message);
  }
}

int RelayClient::nodes() const {
  const auto is_node = [](const auto& each) { return !each.second.is_relay; };
  return static_cast<int>(std::ranges::count_if(opening_, is_node) +
                          std::ranges::count_if(carried_, is_node));
}

void RelayClient::connect(const NodeAddress& node, const AgentLaunch& launch, ConnectDone done) {
  if (!link_) return done(LinkFailure{LinkFailureKind::lost, describe(node) + lost_relay});
  RelayConnect request;
  request.ticket = next_ticket_++;
  request.node = node;
  request.build_id = launch.build_id;
  request.controller_id = launch.controller_id;
  request.home = launch.home;
  request.is_relay = launch.service == AgentService::relay;
  opening_.emplace(request.ticket, Opening{node, request.is_relay, std::move(done)});
  send(request);
}

void RelayClient::on(const RelayConnected& connected, std::string&&) {
  auto opened = opening_.extract(connected.ticket);
  if (opened.empty()) return;
  const Opening& opening = opened.mapped();
  auto link = open_link(connected.ticket, opening);
  opening.done(Connected{std::move(link), believable(connected.profile), "", parent_});
}

std::unique_ptr<Link> RelayClient::open_link(std::int64_t ticket, const Opening& opening) {
  auto stream = std::make_shared<RelayStream>(timers_, ticket, describe(opening.node),
                                              while_alive(weak_from_this(), &RelayClient::send));
  carried_.emplace(ticket, Carried{stream, opening.is_relay});
  return std::make_unique<WatchedLink>(stream, [weak = weak_from_this(), ticket, stream] {
    stream->abandon();
    const auto self = weak.lock();
    if (self && self->carried_.erase(ticket) > 0) self->send(RelayHangUp{ticket});
  });
}

void RelayClient::on(const RelayClosed& closed, std::string&&) {
  if (opening_.contains(closed.ticket)) return refuse(closed.ticket, closed.failure);
  const auto over = carried_.extract(closed.ticket);
  if (over.empty()) return;
  // Of a node that was reached, the way is all that a relay can know the end of.
  over.mapped().stream->closed(by_way({LinkFailureKind::lost, closed.failure.message}));
}

LinkFailure RelayClient::by_way(LinkFailure failure) const {
  failure.message = shown_text(failure.message, longest_reason_bytes) + " (reached through " +
                    parent_.value + ")";
  return failure;
}

void RelayClient::refuse(std::int64_t ticket, LinkFailure failure) {
  auto refused = opening_.extract(ticket);
  if (refused.empty()) return;
  refused.mapped().done(by_way(std::move(failure)));
}

void RelayClient::on(const RelayBytes& bytes, std::string&& payload) {
  const auto found = carried_.find(bytes.ticket);
  if (found != carried_.end()) std::shared_ptr(found->second.stream)->bytes(std::move(payload));
}

void RelayClient::on(const RelayRoom& room, std::string&&) {
  const auto found = carried_.find(room.ticket);
  if (found != carried_.end()) std::shared_ptr(found->second.stream)->more_room(room.bytes);
}

// The link is destroyed later: this may run inside one of its callbacks.
void RelayClient::lose(const std::string& why) {
  if (!link_) return;
  const auto self = shared_from_this();
  timers_.post([dead = std::shared_ptr<Link>(std::move(link_))] {});
  heartbeat_.reset();
  const std::string reason = lost_relay + (": " + why);
  const auto carried = std::exchange(carried_, {});
  while (!opening_.empty()) {
    const auto& [ticket, opening] = *opening_.begin();
    refuse(ticket, {LinkFailureKind::lost, describe(opening.node) + reason});
  }
  for (const auto& [ticket, each] : carried) {
    each.stream->closed(by_way({LinkFailureKind::lost, each.stream->peer() + reason}));
  }
  if (on_lost_) std::exchange(on_lost_, nullptr)();
}

}  // namespace muster
