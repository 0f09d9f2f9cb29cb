#include "launcher/transport/link/start_gates.h"

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <cerrno>
#include <cstring>

#include "launcher/os/read_file.h"

namespace muster {

namespace {

constexpr int max_parallel_pushes = 16;  // enough to fill the uplink of a login node

}  // namespace

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

int PushGate::limit(const Build& build) {
  return build.copied_once || build.failed_once ? max_parallel_pushes : 1;
}

void PushGate::enter(const std::string& build, Granted granted) {
  Build& state = builds_[build];
  if (state.inside < limit(state)) return grant(build, std::move(granted), false);
  state.waiting.push_back(std::move(granted));
}

void PushGate::leave(const std::string& build) {
  Build& state = builds_[build];
  --state.inside;
  state.failed_once |= !state.copied_once;
  while (state.inside < limit(state) && !state.waiting.empty()) {
    Granted next = std::move(state.waiting.front());
    state.waiting.pop_front();
    grant(build, std::move(next), state.copied_once);
  }
}

void PushGate::grant(const std::string& build, Granted granted, bool look_again) {
  ++builds_[build].inside;
  Pass pass(nullptr, [gate = shared_from_this(), build](void*) { gate->leave(build); });
  boost::asio::post(io_, [pass = std::move(pass), granted = std::move(granted),
                          look_again]() mutable { granted(std::move(pass), look_again); });
}

Result<Binary> PushGate::read(const std::string& path) {
  if (Binary known = files_[path].lock()) return known;
  auto bytes = std::make_shared<const std::string>(text_of_file(path));
  if (bytes->empty()) {
    return Error{"cannot read muster's own program " + path + ": " + std::strerror(errno)};
  }
  files_[path] = bytes;
  return Binary(bytes);
}

}  // namespace muster
