#include "launcher/controller/clients/slow_clients.h"

namespace muster {

namespace {

// The answers of 500 nodes, of 130 KB each.
constexpr std::size_t bytes_until_behind = 64u << 20;
// What nodes still say that were asked before.
constexpr std::size_t bytes_most = 512u << 20;

}  // namespace

void SlowClients::answer(const Client& client, NodeLooked looked, std::string payload) {
  const auto known = waiting_.find(client);
  if (known == waiting_.end() && client->has_room()) return client->send(looked, payload);
  Waiting& waiting = waiting_[client];
  if (waiting.bytes + payload.size() > bytes_most) {
    payload.clear();
    looked.error = "its answer was not kept: those before it were not read";
  }
  waiting.bytes += payload.size();
  waiting.answers.push_back({std::move(looked), std::move(payload)});
  if (waiting.answers.size() > 1) return;
  client->when_room([this, weak = std::weak_ptr<Session>(client)] { send_on(weak); });
}

void SlowClients::send_on(const std::weak_ptr<Session>& weak) {
  const Client client = weak.lock();
  const auto found = waiting_.find(client);
  if (!client || found == waiting_.end()) return;
  Waiting& waiting = found->second;
  const bool was_behind = is_behind(client);
  while (!waiting.answers.empty() && client->has_room()) {
    const Answer answer = std::move(waiting.answers.front());
    waiting.answers.pop_front();
    waiting.bytes -= answer.payload.size();
    client->send(answer.looked, answer.payload);
  }
  const bool has_room_now = was_behind && !is_behind(client);
  if (!waiting.answers.empty()) {
    client->when_room([this, weak] { send_on(weak); });
  } else {
    const bool is_finished = waiting.is_finished;
    waiting_.erase(found);
    if (is_finished) return client->finish();
  }
  if (has_room_now) on_room_(client);
}

void SlowClients::finish(const Client& client) {
  const auto found = waiting_.find(client);
  if (found == waiting_.end()) return client->finish();
  found->second.is_finished = true;
}

bool SlowClients::is_behind(const Client& client) const {
  const auto found = waiting_.find(client);
  return found != waiting_.end() && found->second.bytes > bytes_until_behind;
}

}  // namespace muster
