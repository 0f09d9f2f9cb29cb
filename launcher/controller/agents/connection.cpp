#include "launcher/controller/agents/connection.h"

#include <algorithm>
#include <utility>

#include "launcher/wire/message_codec.h"
#include "scheduler/state/sentences.h"

namespace muster {

namespace {

// What the agent counts from is up to two beats old when a link goes silent: of a lease of 20 s
// there are 18 s left, enough for a host that stands still for 15 s.
constexpr Milliseconds slowest_beat{2000};
constexpr int beats_in_lease = 20;

// When the answer to a beat is still missing at the next, the host is asked over another
// connection.
constexpr Milliseconds shortest_doubt{2500};
constexpr Milliseconds second_tcp_timeout{1000};

}  // namespace

AgentConnection::AgentConnection(Timers& timers, Transport& transport, NodeAddress address,
                                 AgentLaunch launch, std::optional<Milliseconds> lease,
                                 Events events)
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
  AgentLaunch launch = launch_;
  if (spoke_at_) launch.connect.retries = 0;  // who asks again is told at once that it is refused
  transport_.connect(address_, launch,
                     [this, alive = alive_, asked = ++tries_](ConnectResult result) {
                       const bool is_wanted = *alive && asked == tries_;
                       if (is_wanted && phase_ == Phase::connecting) connected(std::move(result));
                     });
}

void AgentConnection::connected(ConnectResult result) {
  if (auto* failure = std::get_if<LinkFailure>(&result)) return drop(std::move(*failure));
  reached_ = std::move(std::get<Connected>(result));
  reader_ = FrameReader{};
  phase_ = Phase::greeting;
  renews_ = asked_again_ = false;
  last_heard_ = timers_.now();
  reached_.link->start({[this](std::span<const std::byte> bytes) { receive(bytes); },
                        [this](LinkFailure failure) { drop(std::move(failure)); }});
  Hello hello;
  hello.controller_id = launch_.controller_id;
  hello.node = address_.id;
  hello.lease = held_lease_ = lease_.value_or(far_lease);
  const bool is_near = reached_.round_trip && *reached_.round_trip < near_round_trip;
  if (!lease_ && is_near) hello.near_lease = near_lease;
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
  if (phase_ == Phase::up) {
    spoke_at_ = last_heard_ = timers_.now();
    asked_again_ = false;
  }
  reader_.feed(bytes);
  while (reached_.link) {
    auto frame = reader_.next();
    if (frame && !*frame) return;
    auto message = frame ? decode<FromAgent>(std::move(**frame)) : frame.error();
    if (!message) {
      const std::string why = address_.id.value + ": " + message.error().message;
      return drop({LinkFailureKind::wrong_build, why});
    }
    handle(std::move(message->message), std::move(message->payload));
  }
}

void AgentConnection::handle(FromAgent message, std::string payload) {
  if (const auto* welcome = std::get_if<Welcome>(&message)) {
    if (phase_ != Phase::greeting) return;
    if (welcome->version != wire_version) {
      return drop(
          {LinkFailureKind::wrong_build, "the agent on " + address_.id.value + " speaks protocol " +
                                             std::to_string(welcome->version) + ", this muster " +
                                             std::to_string(wire_version) +
                                             ": wait for its jobs to end, or cancel them"});
    }
    phase_ = Phase::up;
    spoke_at_ = last_heard_ = timers_.now();
    if (welcome->boot_id != welcome_.boot_id) clock_.forget();
    learn_clock(welcome->clock);
    welcome_ = *welcome;
    take_lease(*welcome);
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

// An older agent holds what it was given, and does not say so. Nobody talks this controller into
// counting a shorter lease than it has offered.
void AgentConnection::take_lease(const Welcome& welcome) {
  if (!welcome.lease) return;
  held_lease_ = std::clamp(*welcome.lease, lease_.value_or(near_lease), longest_lease);
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
  if (stamps) clock_.add(*stamps, timers_.raw_now().count());
}

std::optional<Interval> AgentConnection::silence() const {
  const auto heard = clock_.last_answer_us();
  return heard ? std::optional(Interval{*heard, timers_.raw_now().count()}) : std::nullopt;
}

std::optional<Milliseconds> AgentConnection::silent_for() const {
  if (!spoke_at_) return std::nullopt;
  return std::chrono::duration_cast<Milliseconds>(timers_.now() - *spoke_at_);
}

// The link is destroyed later: this may run inside one of its callbacks.
void AgentConnection::drop(LinkFailure why) {
  if (phase_ == Phase::idle) return;
  heartbeat_.reset();
  silence_at_loss_ = phase_ == Phase::up ? silence() : std::nullopt;
  silent_at_loss_ = phase_ == Phase::up ? *silent_for() : Milliseconds{0};
  phase_ = Phase::idle;
  if (reached_.link) timers_.post([dead = std::shared_ptr<Link>(std::move(reached_.link))] {});
  events_.on_down(std::move(why));
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
  const auto silent = timers_.now() - last_heard_;
  const auto limit = std::min<Milliseconds>(silence_limit, held_lease_ / 2);
  if (silent > limit) {
    return drop({LinkFailureKind::lost,
                 "node " + address_.id.value + ": no response for " + duration_text(limit), true});
  }
  const Milliseconds pause = std::min(held_lease_ / beats_in_lease, slowest_beat);
  if (is_up() && silent > std::max(pause * 3 / 2, shortest_doubt)) ask_again();
  ping();
  heartbeat_ = timers_.after(pause, [this] { beat(); });
}

// Only a host that refuses is lost; one that lets in, or says nothing, is waited for. Routers
// answer some packets only: who has no answer asks anew at the next beat.
void AgentConnection::ask_again() {
  if (std::exchange(asked_again_, true) || address_.transport == TransportKind::local) return;
  AgentLaunch launch = launch_;
  launch.connect.retries = 0;
  launch.connect.tcp_timeout = second_tcp_timeout;
  transport_.connect(address_, launch,
                     [this, alive = alive_, asked = tries_](const ConnectResult& result) {
                       const auto* failure = std::get_if<LinkFailure>(&result);
                       if (!*alive || asked != tries_ || failure == nullptr) return;
                       if (!asked_again_ || !is_up()) return;  // it has spoken since
                       asked_again_ = false;
                       if (failure->is_denied) drop(*failure);
                     });
}

}  // namespace muster
