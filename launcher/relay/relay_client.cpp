#include "launcher/relay/relay_client.h"

#include <algorithm>
#include <utility>

#include "launcher/relay/login_request.h"
#include "launcher/relay/relay_stream.h"
#include "launcher/transport/attach_failure.h"
#include "launcher/transport/base64.h"
#include "launcher/wire/message_codec.h"

namespace muster {
namespace {

// Silence is counted in beats, not seconds: this process may have stood still.
constexpr Milliseconds beat_interval{1000};
// More than any relay has to say or ask: a login that sshd drops is tried up to a hundred times.
constexpr std::size_t longest_header_bytes = 64 * 1024;
constexpr std::size_t longest_reason_bytes = 2000;
constexpr int most_questions = 1000;
constexpr const char* lost_relay = ": the relay to it is gone";

// Sums of these are made without another look.
ConnectProfile believable(ConnectProfile profile) {
  constexpr std::size_t most_phases = 32;
  constexpr std::int64_t longest_us = std::chrono::microseconds(std::chrono::hours(24)).count();
  profile.resize(std::min(profile.size(), most_phases));
  for (PhaseTime& each : profile) {
    each.phase = without_controls(each.phase, longest_reason_bytes);
    each.us = std::clamp<std::int64_t>(each.us, 0, longest_us);
  }
  return profile;
}

class RelayLink final : public Link {
 public:
  RelayLink(std::shared_ptr<RelayStream> stream, std::function<void()> hang_up)
      : stream_(std::move(stream)), hang_up_(std::move(hang_up)) {}
  ~RelayLink() override {
    stream_->abandon();
    hang_up_();
  }
  void start(Handlers handlers) override { stream_->start(std::move(handlers)); }
  void write(std::string bytes) override { stream_->write(std::move(bytes)); }
  std::size_t queued_bytes() const override { return stream_->queued_bytes(); }

 private:
  std::shared_ptr<RelayStream> stream_;
  std::function<void()> hang_up_;
};

}  // namespace

RelayClient::RelayClient(Timers& timers, NodeId parent, Milliseconds silence,
                         std::unique_ptr<Link> link, std::shared_ptr<LoginTrust> trust,
                         std::function<void()> on_lost)
    : timers_(timers),
      parent_(std::move(parent)),
      silence_(silence),
      link_(std::move(link)),
      trust_(std::move(trust)),
      on_lost_(std::move(on_lost)) {}

RelayClient::~RelayClient() = default;

void RelayClient::start() {
  link_->start({[weak = weak_from_this()](std::span<const std::byte> bytes) {
                  if (const auto self = weak.lock()) self->receive(bytes);
                },
                [weak = weak_from_this()](const LinkFailure& failure) {
                  if (const auto self = weak.lock()) self->lose(failure.message);
                }});
  beat();
}

void RelayClient::beat() {
  if (!link_) return;
  if (unanswered_++ >= silence_ / beat_interval) {
    return lose("it has been silent for " + std::to_string(silence_ / Seconds{1}) + " s");
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
    if ((**frame).header.size() > longest_header_bytes) return lose("it says what no relay says");
    auto message = decode_from_relay(std::move(**frame));
    if (!message) return lose(message.error().message);
    std::visit([&](const auto& each) { on(each, std::move(message->payload)); },
               message->message);
  }
}

int RelayClient::nodes() const {
  const auto opening = std::count_if(opening_.begin(), opening_.end(), [](const auto& each) {
    return each.second.on_connected != nullptr;
  });
  return static_cast<int>(opening + std::count_if(carried_.begin(), carried_.end(),
                                                  [](const auto& each) {
                                                    return !each.second.is_relay;
                                                  }));
}

void RelayClient::connect(const SshTarget& target, const AgentLaunch& launch,
                          std::function<void(ConnectResult)> done) {
  const std::int64_t ticket = next_ticket_++;
  opening_.emplace(ticket, Opening{target, std::move(done), {}});
  trust_->keys_for(target.node, [weak = weak_from_this(), ticket,
                                 launch](std::vector<std::string> keys) {
    if (const auto self = weak.lock()) self->ask(ticket, launch, std::move(keys));
  });
}

void RelayClient::ask(std::int64_t ticket, const AgentLaunch& launch,
                      std::vector<std::string> keys) {
  const auto found = opening_.find(ticket);
  if (found == opening_.end()) return;
  Opening& opening = found->second;
  RelayConnect request;
  request.ticket = ticket;
  request.node = opening.target.node;
  request.node.identity_file.clear();  // a file of the login node
  request.build_id = launch.build_id;
  request.controller_id = launch.controller_id;
  request.home = launch.home;
  request.connect = launch.connect;
  request.host_key_types = trust_->known_types(opening.target);
  for (const std::string& key : keys) request.keys.push_back(encode_base64(key));
  opening.keys = std::move(keys);
  send(request);
}

// A relay that is started on a node asks nothing: the node has been logged in to.
RelayClient::Opening* RelayClient::login_that_asks(std::int64_t ticket) {
  const auto found = opening_.find(ticket);
  if (found == opening_.end() || !found->second.on_connected) return nullptr;
  if (++found->second.questions <= most_questions) return &found->second;
  lose("it asks the same again and again");
  return nullptr;
}

void RelayClient::on(const HostKeySeen& seen, std::string&& payload) {
  const Opening* opening = login_that_asks(seen.ticket);
  if (opening == nullptr) return;
  trust_->judge(opening->target, payload,
                [weak = weak_from_this(), ticket = seen.ticket](bool is_trusted) {
                  if (const auto self = weak.lock()) self->send(HostKeyJudged{ticket, is_trusted});
                });
}

// One signature a key: a login needs no more, and a relay that is not what it was gets no more.
void RelayClient::on(const SignAsked& asked, std::string&& payload) {
  Opening* opening = login_that_asks(asked.ticket);
  if (opening == nullptr) return;
  const std::string key = decode_base64(asked.key);
  const bool is_fine = is_login_request(payload, opening->target.node.user, key) &&
                       std::erase(opening->keys, key) > 0;
  if (!is_fine) return send(Signed{asked.ticket});
  trust_->sign(key, payload,
               [weak = weak_from_this(),
                ticket = asked.ticket](const std::optional<std::string>& signature) {
                 const auto self = weak.lock();
                 if (self) self->send(Signed{ticket}, signature.value_or(""));
               });
}

void RelayClient::on(const RelayConnected& connected, std::string&&) {
  auto opened = opening_.extract(connected.ticket);
  if (opened.empty()) return;
  const Opening& opening = opened.mapped();
  auto link = open_link(connected.ticket, opening);
  if (opening.on_relay) return opening.on_relay(std::move(link));
  StartRelay start_relay = [weak = weak_from_this(), ticket = connected.ticket,
                            node = opening.target.node](std::function<void(RelayResult)> done) {
    const auto self = weak.lock();
    if (self) return self->deepen(ticket, node, std::move(done));
    done(LinkFailure{LinkFailureKind::lost, describe(node) + lost_relay});
  };
  opening.on_connected(Connected{std::move(link), believable(connected.profile),
                                 without_controls(connected.methods, longest_reason_bytes), parent_,
                                 std::move(start_relay)});
}

std::unique_ptr<Link> RelayClient::open_link(std::int64_t ticket, const Opening& opening) {
  auto stream = std::make_shared<RelayStream>(
      timers_, ticket, describe(opening.target.node),
      [weak = weak_from_this()](const ToRelay& message, std::string_view payload) {
        if (const auto self = weak.lock()) self->send(message, payload);
      });
  carried_.emplace(ticket, Carried{stream, opening.on_relay != nullptr});
  return std::make_unique<RelayLink>(std::move(stream), [weak = weak_from_this(), ticket] {
    const auto self = weak.lock();
    if (self && self->carried_.erase(ticket) > 0) self->send(RelayHangUp{ticket});
  });
}

void RelayClient::deepen(std::int64_t over, const NodeAddress& node,
                         std::function<void(RelayResult)> done) {
  if (!link_) return done(LinkFailure{LinkFailureKind::lost, describe(node) + lost_relay});
  const std::int64_t ticket = next_ticket_++;
  opening_.emplace(ticket, Opening{SshTarget{node, {}}, {}, std::move(done)});
  send(RelayDeepen{ticket, over});
}

void RelayClient::on(const RelayClosed& closed, std::string&&) {
  if (opening_.contains(closed.ticket)) return refuse(closed.ticket, closed.failure);
  const auto over = carried_.extract(closed.ticket);
  if (over.empty()) return;
  // Of a node that was reached, the way is all that a relay can know the end of.
  over.mapped().stream->closed(by_way({LinkFailureKind::lost, closed.failure.message}));
}

LinkFailure RelayClient::by_way(LinkFailure failure) const {
  failure.message = without_controls(failure.message, longest_reason_bytes) +
                    " (reached through " + parent_.value + ")";
  return failure;
}

void RelayClient::refuse(std::int64_t ticket, LinkFailure failure) {
  auto refused = opening_.extract(ticket);
  if (refused.empty()) return;
  const Opening& opening = refused.mapped();
  if (opening.on_relay) return opening.on_relay(by_way(std::move(failure)));
  opening.on_connected(by_way(std::move(failure)));
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
    refuse(ticket, {LinkFailureKind::lost, describe(opening.target.node) + reason});
  }
  for (const auto& [ticket, each] : carried) {
    each.stream->closed(by_way({LinkFailureKind::lost, each.stream->peer() + reason}));
  }
  if (on_lost_) std::exchange(on_lost_, nullptr)();
}

}  // namespace muster
