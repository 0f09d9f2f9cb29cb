#include "launcher/relay/relay_carriage.h"

#include <algorithm>
#include <utility>

namespace muster {
namespace {

std::string ending(const RemoteExit& exit, const std::string& errors) {
  const std::string line = last_line(errors);
  return (exit.status ? "the agent's attach command ended with exit code " +
                            std::to_string(*exit.status)
                      : "the connection broke: " + exit.reason) +
         (line.empty() ? "" : ", it said: " + line);
}

}  // namespace

RelayCarriage::RelayCarriage(std::int64_t ticket, std::unique_ptr<RemoteProcess> process,
                             const std::string& first_bytes, SendToController send,
                             std::function<void(const std::string&)> on_end)
    : ticket_(ticket),
      send_(std::move(send)),
      on_end_(std::move(on_end)),
      process_(std::move(process)) {
  process_->handle({[this](std::span<const std::byte> bytes) {
                      take({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
                    },
                    [this](std::string_view text) { errors_.add(text); },
                    [this] { drained(); }, [this](const RemoteExit& exit) { ended(exit); }});
  take(first_bytes);
}

void RelayCarriage::write(std::string bytes) {
  undrained_ += static_cast<std::int64_t>(bytes.size());
  process_->write(std::move(bytes));
}

void RelayCarriage::more_room(std::int64_t bytes) {
  room_ += std::max<std::int64_t>(0, bytes);
  send_held();
  if (held_.empty()) process_->pause(false);
}

void RelayCarriage::take(std::string_view bytes) {
  held_ += bytes;
  send_held();
  if (!held_.empty()) process_->pause(true);
}

void RelayCarriage::send_held() {
  const auto count = static_cast<std::size_t>(
      std::min<std::int64_t>(room_, static_cast<std::int64_t>(held_.size())));
  if (count == 0) return;
  room_ -= static_cast<std::int64_t>(count);
  send_(RelayBytes{ticket_}, std::string_view(held_).substr(0, count));
  held_.erase(0, count);
}

void RelayCarriage::drained() {
  const std::int64_t bytes = std::exchange(undrained_, 0);
  if (bytes > 0) send_(RelayRoom{ticket_, bytes}, {});
}

// A process that is paused has not ended its output: what is held is all that may be left.
void RelayCarriage::ended(const RemoteExit& exit) {
  if (!held_.empty()) send_(RelayBytes{ticket_}, held_);
  held_.clear();
  if (on_end_) std::exchange(on_end_, nullptr)(ending(exit, errors_.text()));
}

}  // namespace muster
