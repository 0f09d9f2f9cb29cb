#include "launcher/transport/link/handshake_gate.h"

#include <algorithm>

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>

namespace muster {

HandshakeGate::Pass& HandshakeGate::Pass::operator=(Pass&& other) noexcept {
  if (this == &other) return *this;
  release();
  gate_ = std::move(other.gate_);
  address_ = std::move(other.address_);
  return *this;
}

void HandshakeGate::Pass::release() {
  if (const auto gate = std::exchange(gate_, nullptr)) gate->leave(address_);
}

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
    const auto next = std::find_if(waiting_.begin(), waiting_.end(),
                                   [&](const Waiting& each) { return has_room(each); });
    if (next == waiting_.end()) return;
    ++inside_;
    ++inside_per_address_[next->address];
    // Shared, because io_context handlers may be copied and a Pass may not.
    auto pass = std::make_shared<Pass>(shared_from_this(), next->address);
    boost::asio::post(io_,
                      [pass, granted = std::move(next->granted)] { granted(std::move(*pass)); });
    waiting_.erase(next);
  }
}

Milliseconds pause_after_drops(int drops, std::mt19937_64& dice) {
  constexpr int first_ms = 100, longest_ms = 3000;
  const int full_ms = std::min(longest_ms, first_ms << std::clamp(drops - 1, 0, 10));
  return Milliseconds(std::uniform_int_distribution<int>(full_ms / 2, full_ms)(dice));
}

}  // namespace muster
