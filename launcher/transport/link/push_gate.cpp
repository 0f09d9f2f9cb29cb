#include "launcher/transport/link/push_gate.h"

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <cerrno>
#include <cstring>

#include "launcher/os/read_file.h"

namespace muster {
namespace {

constexpr int max_parallel_pushes = 16;  // enough to fill the uplink of a login node

}  // namespace

int PushGate::limit(const Build& build) {
  return build.copied_once || build.failed_once ? max_parallel_pushes : 1;
}

void PushGate::Pass::succeeded() {
  gate_->builds_[build_].copied_once = true;
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
  auto pass = std::make_shared<Pass>(shared_from_this(), build);
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
