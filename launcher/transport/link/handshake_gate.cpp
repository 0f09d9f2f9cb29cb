#include "launcher/transport/link/handshake_gate.h"

#include <algorithm>

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>

namespace muster {

void HandshakeGate::enter(const std::string& address, Limits limits,
                          std::function<void(Pass)> granted) {
  waiting_.push_back({address, limits, std::move(granted)});
  grant();
}

void HandshakeGate::leave(const std::string& address) {
  --inside_;
  const auto count = inside_per_address_.find(address);
  if (--count->second == 0) inside_per_address_.erase(count);
  grant();
}

bool HandshakeGate::has_room(const Waiting& each) const {
  if (inside_ >= each.limits.all) return false;
  const auto count = inside_per_address_.find(each.address);
  return count == inside_per_address_.end() || count->second < each.limits.per_address;
}

void HandshakeGate::grant() {
  while (true) {
    const auto next =
        std::ranges::find_if(waiting_, [&](const Waiting& each) { return has_room(each); });
    if (next == waiting_.end()) return;
    ++inside_;
    ++inside_per_address_[next->address];
    Pass pass(nullptr, [gate = shared_from_this(), address = next->address](void*) {
      gate->leave(address);
    });
    boost::asio::post(io_, [pass = std::move(pass), granted = std::move(next->granted)]() mutable {
      granted(std::move(pass));
    });
    waiting_.erase(next);
  }
}

Milliseconds pause_after_drops(int drops, std::mt19937_64& dice) {
  constexpr int first_ms = 100, longest_ms = 3000;
  const int full_ms = std::min(longest_ms, first_ms << std::clamp(drops - 1, 0, 10));
  return Milliseconds(std::uniform_int_distribution<int>(full_ms / 2, full_ms)(dice));
}

}  // namespace muster
