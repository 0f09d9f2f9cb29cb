#include "tests/sim/model_node.h"

#include <utility>

#include "launcher/wire/message_codec.h"

namespace muster::sim {

namespace {

// A reboot brings another number, and sometimes none.
constexpr std::uint64_t gpus_most = 3;
// An agent looks at its lease twice a second.
constexpr Milliseconds lease_look{500};
constexpr Milliseconds start_fast{20};
constexpr Milliseconds start_slow{1500};
// No node's own clock is the controller's.
constexpr Milliseconds clock_ahead{3'600'000};
// How far a node's clock may be off (lease_margin), and how far it is with a planted mistake.
constexpr int clock_off_most_permille = 20;
constexpr int clock_far_off_permille = 400;

}  // namespace

// ---- the host ---------------------------------------------------------------------------------

ModelNode::ModelNode(Cluster& cluster, NodeId id) : cluster_(cluster), id_(std::move(id)) {
  // By its name, so that the dice are left alone: none, slow, fast.
  const int number = std::stoi(id_.value.substr(1));
  const int off = cluster_.planted.slow_clocks ? clock_far_off_permille : clock_off_most_permille;
  if (number % 3 == 1) clock_permille_ -= off;
  if (number % 3 == 2) clock_permille_ += clock_off_most_permille;
}

BootTime ModelNode::boot_now() const {
  return BootTime{cluster_.events.now()} * clock_permille_ / 1000;
}

Milliseconds ModelNode::start_time() {
  return serving_ ? Milliseconds{1} : cluster_.dice.time(start_fast, start_slow);
}

int ModelNode::gpus_here() const {
  const std::uint64_t number = std::stoull(id_.value.substr(1));
  return static_cast<int>((number + static_cast<std::uint64_t>(boot_)) % (gpus_most + 1));
}

std::shared_ptr<Connection> ModelNode::accept() {
  if (!is_on_ || leaving_) return nullptr;
  if (!serving_) {
    // What an earlier agent left has to be gone before the next one answers.
    if (has_ranks()) return nullptr;
    start_agent();
  }
  const auto pipe = [this](const bool& blocked) {
    return std::make_shared<Pipe>(cluster_.events, cluster_.dice, weather, blocked);
  };
  auto connection = std::make_shared<Connection>(
      Connection{pipe(weather.to_node_blocked), pipe(weather.to_controller_blocked)});
  std::erase_if(connections_, [](const auto& old) { return old.expired(); });
  connections_.push_back(connection);
  const std::weak_ptr<Connection> weak = connection;
  const auto reader = std::make_shared<FrameReader>();
  connection->to_node->set_reader({[this, weak, reader, agent = agents_](const std::string& bytes) {
                                     const auto from = weak.lock();
                                     if (from && serving_ && agent == agents_) {
                                       receive(from, *reader, bytes);
                                     }
                                   },
                                   [this, weak](const std::string&) {
                                     const auto from = weak.lock();
                                     if (!from) return;
                                     from->to_controller->close("the other side closed it");
                                     if (line_ == from) line_lost();
                                   }});
  return connection;
}

void ModelNode::power_off() {
  if (!is_on_) return;
  is_on_ = false;
  is_leaving_ = false;
  cut_connections();
  processes_stick = false;
  agent_is_gone();
  for (auto& [name, attempt] : attempts_) {
    for (ModelRank& rank : attempt.ranks) end_rank(name, rank, std::nullopt);
  }
}

void ModelNode::power_on() {
  if (is_on_) return;
  is_on_ = true;
  boot_ += 1;
}

void ModelNode::give_notice(std::optional<Milliseconds> leaves_in) {
  is_leaving_ = is_on_;
  leaves_at_.reset();
  if (leaves_in) leaves_at_ = cluster_.events.now() + *leaves_in;
  report_notice();
}

void ModelNode::withdraw_notice() {
  is_leaving_ = false;
  report_notice();
}

void ModelNode::report_notice() {
  NoticeSeen seen{std::nullopt, "/run/leave", !is_leaving_};
  if (is_leaving_ && leaves_at_) {
    seen.leaves_in = std::max(Milliseconds{0}, *leaves_at_ - cluster_.events.now());
  }
  send(seen);
}

void ModelNode::heal() {
  power_on();
  withdraw_notice();
  weather = Weather{};
  is_healthy = true;
  lies = disk_full = ports_taken = false;
  get_well();
  go_on();
  if (!processes_stick) return;
  processes_stick = false;
  for (auto& [name, attempt] : attempts_) {
    if (attempt.stop != ModelAttempt::Stop::idle || !serving_) kill(name, attempt);
  }
}

void ModelNode::reset_connections() {
  for (const auto& weak : connections_) {
    if (const auto connection = weak.lock()) connection->reset("connection reset by peer");
  }
}

void ModelNode::cut_connections() {
  for (const auto& weak : connections_) {
    if (const auto connection = weak.lock()) connection->vanish();
  }
}

bool ModelNode::has_ranks() const {
  for (const auto& [name, attempt] : attempts_) {
    if (attempt.has_alive()) return true;
  }
  return false;
}

bool ModelNode::has_started(const AttemptName& name) const {
  const auto found = attempts_.find(name);
  return found != attempts_.end() && found->second.started;
}

// ---- the agent's life -------------------------------------------------------------------------

void ModelNode::later(Milliseconds delay, std::function<void()> call) {
  cluster_.events.after(delay, [this, agent = agents_, call = std::move(call)] {
    if (serving_ && agent == agents_) call();
  });
}

void ModelNode::start_agent() {
  agents_ += 1;
  serving_ = true;
  leaving_ = false;
  lease_ = AgentLease(boot_now());
  restore();
  watch_lease();
}

// Of attempts that ran the output is still there; what was only prepared is not.
void ModelNode::restore() {
  std::erase_if(attempts_, [](const auto& item) { return !item.second.started; });
  for (auto& [name, attempt] : attempts_) {
    attempt.start_error = "an earlier agent of this node ran the attempt and died";
    attempt.stop = ModelAttempt::Stop::clean;
    attempt.clean_wanted = false;
    attempt.to_forget = false;
    attempt.unkillable.clear();
    attempt.ports.clear();
  }
}

void ModelNode::watch_lease() {
  const BootTime by_own_clock = lease_.end() - boot_now();
  if (by_own_clock < BootTime{0} && !cluster_.planted.ignores_lease) return leave();
  const auto left = std::chrono::duration_cast<Milliseconds>(by_own_clock * 1000 / clock_permille_);
  later(std::max(left, Milliseconds{0}) + cluster_.dice.time(Milliseconds{1}, lease_look),
        [this, watch = ++lease_watch_] {
          if (watch == lease_watch_) watch_lease();
        });
}

// The lease is over: all ranks are ended, and the agent with them.
void ModelNode::leave() {
  if (leaving_) return;
  leaving_ = true;
  cluster_.promises.event(id_.value + ": the agent's lease is over");
  for (auto& [name, attempt] : attempts_) kill(name, attempt);
  later(has_ranks() ? Milliseconds{60'000} : Milliseconds{100}, [this] {
    reset_connections();
    agent_is_gone();
  });
}

void ModelNode::agent_is_gone() {
  serving_ = leaving_ = false;
  line_.reset();
  staging_.reset();
  being_mended_ = false;
  remedies_.clear();
}

void ModelNode::crash_agent(const std::string& why) {
  if (!serving_) return;
  cluster_.promises.event(id_.value + ": the agent " + why);
  reset_connections();
  agent_is_gone();
  // Its keeper ends what it ran.
  cluster_.events.after(cluster_.dice.time(Milliseconds{0}, Milliseconds{300}),
                        [this, agents = agents_] {
                          if (agents != agents_) return;
                          for (auto& [name, attempt] : attempts_) kill_ranks(name, attempt);
                        });
}

// ---- its connections --------------------------------------------------------------------------

void ModelNode::receive(const std::shared_ptr<Connection>& from, FrameReader& reader,
                        const std::string& bytes) {
  reader.feed(std::as_bytes(std::span(bytes.data(), bytes.size())));
  while (true) {
    auto frame = reader.next();
    if (!frame) return cluster_.promises.broken("wire: " + frame.error().message);
    if (!*frame) return;
    auto received = decode<ToAgent>(std::move(**frame));
    if (!received) return cluster_.promises.broken("wire: " + received.error().message);
    if (const auto* hello = std::get_if<Hello>(&received->message)) {
      greet(from, *hello);
      continue;
    }
    if (from != line_) return;  // a newer connection has taken over
    if (cluster_.planted.lease_by_arrival) lease_.heard(boot_now(), boot_now());
    std::visit([this](const auto& message) { on(message); }, received->message);
  }
}

std::int64_t ModelNode::raw_us(Milliseconds at) const {
  return std::chrono::microseconds(clock_ahead + at).count();
}

std::optional<ClockStamps> ModelNode::clock_stamps(std::optional<std::int64_t> sent_us) const {
  if (!sent_us) return std::nullopt;
  const std::int64_t now_us = raw_us(cluster_.events.now());
  return ClockStamps{*sent_us, now_us, now_us};
}

void ModelNode::greet(const std::shared_ptr<Connection>& from, const Hello& hello) {
  if (leaving_) return from->to_controller->close("the agent is leaving");
  if (line_) {
    line_->to_controller->close("another connection of the controller took over");
    line_lost();
  }
  if (cluster_.planted.lease_by_arrival) lease_.heard(boot_now(), boot_now());
  lease_.greeted(hello.near_lease.value_or(hello.lease), boot_now());
  watch_lease();
  if (leaving_) return;
  line_ = from;
  Welcome welcome;
  welcome.agent_id = id_.value + "-agent" + std::to_string(agents_);
  welcome.boot_id = id_.value + "-boot" + std::to_string(boot_);
  welcome.host_name = id_.value;
  welcome.address = "10.0.0.1";
  welcome.cores = 8;
  welcome.gpus = gpus_here();
  welcome.boot_ms = std::chrono::floor<Milliseconds>(boot_now()).count();
  welcome.lease = lease_.agreed();
  welcome.clock = clock_stamps(hello.sent_us);
  welcome.holds_attempts = !attempts_.empty();
  for (const auto& [name, attempt] : attempts_) welcome.held.push_back({name.first, name.second});
  send(welcome);
  report_notice();
  if (cluster_.with_remedies) report_faults();
  for (auto& [name, attempt] : attempts_) {
    for (ModelRank& rank : attempt.ranks) {
      rank.sent = rank.acked;
      if (cluster_.planted.skips_output && rank.sent > 0) rank.sent += line_bytes;
      if (rank.exit) report_end(name, rank);
    }
    pump(name, attempt);
    report_clean(name);
  }
}

void ModelNode::line_lost() {
  line_.reset();
  generation_ += 1;
  staging_.reset();
}

void ModelNode::send(const FromAgent& message, std::string_view payload) {
  if (line_) line_->to_controller->write(encode(message, payload));
}

void ModelNode::reply(Milliseconds delay, FromAgent message) {
  const int times = cluster_.dice.one_in(30) ? 2 : 1;
  for (int i = 1; i <= times; ++i) {
    later(delay * i, [this, message, asked_on = generation_] {
      if (asked_on == generation_) send(message);
    });
  }
}

}  // namespace muster::sim
