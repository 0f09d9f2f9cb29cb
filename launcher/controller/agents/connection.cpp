#include "launcher/controller/agents/connection.h"

#include <algorithm>

#include "launcher/wire/message_codec.h"

namespace muster {

namespace {

constexpr auto slowest_beat = std::chrono::milliseconds(2000);

}  // namespace

AgentConnection::AgentConnection(Timers& timers, Transport& transport, NodeAddress address,
                                 AgentLaunch launch, Milliseconds lease, Events events)
    : timers_(timers),
      transport_(transport),
      address_(std::move(address)),
      launch_(std::move(launch)),
      lease_(lease),
      events_(std::move(events)) {}

AgentConnection::~AgentConnection() {
  *alive_ = false;
}

void AgentConnection::connect() {
  check(phase_ == Phase::idle, "connect on a connection that is not idle");
  phase_ = Phase::connecting;
  transport_.connect(address_, launch_,
                     [this, alive = alive_, asked = ++tries_](ConnectResult result) {
                       const bool is_wanted = *alive && asked == tries_;
                       if (is_wanted && phase_ == Phase::connecting) connected(std::move(result));
                     });
}

void AgentConnection::connected(ConnectResult result) {
  if (auto* failure = std::get_if<LinkFailure>(&result)) {
    went_down(std::move(*failure));
    return;
  }
  reached_ = std::move(std::get<Connected>(result));
  reader_ = FrameReader{};
  phase_ = Phase::greeting;
  renews_ = false;
  last_heard_ = timers_.now();
  reached_.link->start({[this](std::span<const std::byte> bytes) { receive(bytes); },
                        [this](LinkFailure failure) { went_down(std::move(failure)); }});
  Hello hello;
  hello.controller_id = launch_.controller_id;
  hello.node = address_.id;
  hello.lease = lease_;
  hello.sent_us = timers_.raw_now().count();
  hello.notice_file = notice_file_;
  hello.health = reported_health_ = health_;
  hello.retention = launch_.retention;
  send(hello);
  beat();
}

void AgentConnection::send(const ToAgent& message, std::string_view payload) {
  if (reached_.link) reached_.link->write(encode(message, payload));
}

void AgentConnection::receive(std::span<const std::byte> bytes) {
  // One that talks but does not greet is no agent of ours.
  if (phase_ == Phase::up) spoke_at_ = last_heard_ = timers_.now();
  reader_.feed(bytes);
  while (reached_.link) {
    auto frame = reader_.next();
    if (!frame) {
      drop({LinkFailureKind::wrong_build, address_.id.value + ": " + frame.error().message});
      return;
    }
    if (!*frame) return;
    auto message = decode_from_agent(std::move(**frame));
    if (!message) {
      drop({LinkFailureKind::wrong_build, address_.id.value + ": " + message.error().message});
      return;
    }
    handle(std::move(message->message), std::move(message->payload));
  }
}

void AgentConnection::handle(FromAgent message, std::string payload) {
  if (const auto* welcome = std::get_if<Welcome>(&message)) {
    if (phase_ != Phase::greeting) return;
    if (welcome->version != wire_version) {
      drop({LinkFailureKind::wrong_build,
            "the agent on " + address_.id.value + " speaks protocol " +
                std::to_string(welcome->version) + ", this muster " + std::to_string(wire_version) +
                ": wait for its jobs to end, or cancel them"});
      return;
    }
    phase_ = Phase::up;
    spoke_at_ = last_heard_ = timers_.now();
    if (welcome->boot_id != welcome_.boot_id) clock_.forget();
    learn_clock(welcome->clock);
    welcome_ = *welcome;
    heard_ms_ = welcome->boot_ms;
    report_health();  // it may have changed since the greeting
    events_.on_up(*welcome);
    return;
  }
  if (phase_ != Phase::up) return;
  if (const auto* pong = std::get_if<Pong>(&message)) {
    heard_ms_ = pong->boot_ms;
    learn_clock(pong->clock);
    return;
  }
  events_.on_message(std::move(message), std::move(payload));
}

void AgentConnection::watch_health(std::optional<HealthProfile> profile) {
  health_ = std::move(profile);
  report_health();
}

void AgentConnection::report_health() {
  if (!is_up() || reported_health_ == health_) return;
  reported_health_ = health_;
  send(WatchHealth{health_});
}

void AgentConnection::learn_clock(const std::optional<ClockStamps>& stamps) {
  if (!stamps) return;
  clock_.add({stamps->sent_us, stamps->received_us, stamps->replied_us, timers_.raw_now().count()});
}

std::optional<Interval> AgentConnection::silence() const {
  const auto heard = clock_.last_answer_us();
  return heard ? std::optional(Interval{*heard, timers_.raw_now().count()}) : std::nullopt;
}

std::optional<Milliseconds> AgentConnection::silent_for() const {
  if (!spoke_at_) return std::nullopt;
  return std::chrono::duration_cast<Milliseconds>(timers_.now() - *spoke_at_);
}

void AgentConnection::drop(LinkFailure why) {
  if (phase_ == Phase::idle) return;
  went_down(std::move(why));
}

// The link is destroyed later: this may run inside one of its callbacks.
void AgentConnection::went_down(LinkFailure failure) {
  heartbeat_.reset();
  const auto silent = phase_ == Phase::up ? silence() : std::nullopt;
  phase_ = Phase::idle;
  if (reached_.link) timers_.post([dead = std::shared_ptr<Link>(std::move(reached_.link))] {});
  events_.on_down(std::move(failure), silent);
}

void AgentConnection::renew_lease() {
  renews_ = true;
  ping();
}

void AgentConnection::ping() {
  Ping ping{timers_.raw_now().count()};
  if (renews_) ping.heard_ms = heard_ms_;
  send(ping);
}

void AgentConnection::beat() {
  if (timers_.now() - last_heard_ > silence_limit) {
    drop({LinkFailureKind::lost,
          "node " + address_.id.value + ": no response for " +
              std::to_string(silence_limit.count()) + " s",
          true});
    return;
  }
  ping();
  heartbeat_ = timers_.after(std::min<Milliseconds>(lease_ / 5, slowest_beat), [this] { beat(); });
}

}  // namespace muster
