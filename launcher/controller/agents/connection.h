// The controller's end of one agent: connects through a Transport, greets, sends and receives whole
// messages, notices silence. Owned by AgentPool, on the controller's thread. Never decides
// anything: a failure is reported once and the owner asks for the next try.
//
//   idle -> connecting -> greeting -> up -> idle (failed or lost)
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "launcher/controller/agents/clock_offset.h"
#include "launcher/os/timers.h"
#include "launcher/transport/link/transport.h"
#include "launcher/wire/agent_message.h"
#include "launcher/wire/frame.h"

namespace muster {

class AgentConnection {
 public:
  // An agent answers a ping within milliseconds; ten seconds of silence, or half a lease, is a dead
  // network or a stopped agent.
  static constexpr Seconds silence_limit{10};

  struct Events {
    std::function<void(const Welcome&)> on_up;
    std::function<void(FromAgent, std::string payload)> on_message;
    std::function<void(LinkFailure)> on_down;
  };

  // `lease`: as the target sets it; nothing: by the round trip.
  AgentConnection(Timers& timers, Transport& transport, NodeAddress address, AgentLaunch launch,
                  std::optional<Milliseconds> lease, Events events);
  ~AgentConnection();

  void connect();  // only when idle
  void send(const ToAgent& message, std::string_view payload = {});
  void drop(LinkFailure why);  // closes, unless idle; on_down follows
  // The journal knows that the agent answers: from here on its lease is renewed.
  void renew_lease();
  bool is_idle() const { return phase_ == Phase::idle; }
  bool is_up() const { return phase_ == Phase::up; }
  std::size_t queued_bytes() const { return reached_.link ? reached_.link->queued_bytes() : 0; }
  const NodeAddress& address() const { return address_; }
  const std::string& home() const { return launch_.home; }
  const std::optional<Milliseconds>& lease() const { return lease_; }
  Milliseconds held_lease() const { return held_lease_; }  // by the newest agent that answered
  // For the next one.
  void move_to(NodeAddress address, AgentLaunch launch, std::optional<Milliseconds> lease) {
    address_ = std::move(address);
    launch_ = std::move(launch);
    lease_ = lease;
  }
  void watch_notice(std::string file) { notice_file_ = std::move(file); }  // at the next greeting
  // The agent that answers is told at once.
  void watch_health(std::optional<HealthProfile> profile);
  const Connected& reached() const { return reached_; }  // how, by the newest connection
  const Welcome& welcome() const { return welcome_; }    // of the newest agent that answered
  const ClockOffset& clock() const { return clock_; }
  // Since its last word, also after its link was lost; nothing: it has said none.
  std::optional<Milliseconds> silent_for() const;
  // Of the newest link, when it was lost; 0: it was never up.
  Milliseconds silent_at_loss() const { return silent_at_loss_; }
  // Between its last word and then, on this host's raw_time(); nothing: it was never up.
  const std::optional<Interval>& silence_at_loss() const { return silence_at_loss_; }

 private:
  enum class Phase { idle, connecting, greeting, up };

  void connected(ConnectResult result);
  void receive(std::span<const std::byte> bytes);
  void handle(FromAgent message, std::string payload);
  void take_lease(const Welcome& welcome);
  void beat();
  void ask_again();
  void ping();
  void report_health();
  void learn_clock(const std::optional<ClockStamps>& stamps);
  std::optional<Interval> silence() const;

  Timers& timers_;
  std::unique_ptr<Alarm> heartbeat_;
  Transport& transport_;
  NodeAddress address_;
  AgentLaunch launch_;
  std::optional<Milliseconds> lease_;
  Milliseconds held_lease_{far_lease};
  std::string notice_file_;
  std::optional<HealthProfile> health_;
  std::optional<HealthProfile> reported_health_;  // what the agent was last told on this connection
  Events events_;
  Phase phase_ = Phase::idle;
  Connected reached_;  // without a link when it is down
  FrameReader reader_;
  Welcome welcome_;
  ClockOffset clock_;
  SteadyTime last_heard_;
  std::optional<SteadyTime> spoke_at_;
  Milliseconds silent_at_loss_{0};
  std::optional<Interval> silence_at_loss_;
  std::int64_t heard_ms_ = 0;  // the agent's stamp of its newest word
  bool renews_ = false;
  bool asked_again_ = false;  // since its last word
  int tries_ = 0;             // an answer of the transport to an earlier one is not wanted any more
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);  // guards callbacks of the transport
};

}  // namespace muster
