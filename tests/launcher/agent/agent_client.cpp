#include "tests/launcher/agent/agent_client.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "launcher/agent/node/run_directory.h"
#include "launcher/wire/message_codec.h"
#include "tests/catch.h"

namespace muster {

namespace {
using SteadyClock = std::chrono::steady_clock;
}

AgentClient::AgentClient(const std::string& socket_path) {
  auto stream = connect_to_agent(socket_path);
  REQUIRE(stream);
  socket_ = std::move(*stream);
}

Welcome AgentClient::hello(const std::string& controller, const std::string& node,
                           Milliseconds lease) {
  send(Hello{wire_version, controller, NodeId{node}, lease, {}});
  const auto welcome = expect<Welcome>();
  return welcome;
}

void AgentClient::send(const ToAgent& message, std::string_view payload) {
  const std::string bytes = encode(message, payload);
  for (std::size_t at = 0; at < bytes.size();) {
    const ssize_t put = ::send(socket_.get(), bytes.data() + at, bytes.size() - at, MSG_NOSIGNAL);
    if (put <= 0) return;  // the agent is gone: the next take says so
    at += static_cast<std::size_t>(put);
  }
}

bool AgentClient::take(std::chrono::milliseconds limit) {
  pollfd waits{socket_.get(), POLLIN, 0};
  if (::poll(&waits, 1, static_cast<int>(limit.count())) <= 0) return true;
  static std::vector<std::byte> buffer(1 << 20);
  const ssize_t got = ::read(socket_.get(), buffer.data(), buffer.size());
  if (got <= 0) return false;
  reader_.feed(std::span(buffer.data(), static_cast<std::size_t>(got)));
  while (true) {
    auto frame = reader_.next();
    REQUIRE(frame);
    if (!*frame) return true;
    auto received = decode<FromAgent>(std::move(**frame));
    REQUIRE(received);
    handle(std::move(received->message), std::move(received->payload));
  }
}

bool AgentClient::wait(const std::function<bool()>& holds, std::chrono::milliseconds limit) {
  const auto deadline = SteadyClock::now() + limit;
  while (!holds()) {
    if (SteadyClock::now() > deadline) return false;
    if (!take(std::chrono::milliseconds(20))) return holds();
  }
  return true;
}

void AgentClient::take_output(const RankOutput& piece, const std::string& payload) {
  const std::int64_t rank = piece.rank.value;
  std::int64_t& size = sizes_[rank];
  if (piece.offset > size) {
    fault = "output has a gap";
    size = piece.offset;
  }
  const std::int64_t known = size - piece.offset;
  const auto length = static_cast<std::int64_t>(payload.size());
  if (known < length) {
    if (keeps_output) outputs_[rank].append(payload, static_cast<std::size_t>(known));
    output_bytes += length - known;
    size = piece.offset + length;
  }
  if (acknowledges) send(OutputAck{piece.job, piece.attempt, piece.rank, size});
}

void AgentClient::handle(FromAgent message, std::string payload) {
  if (const auto* piece = std::get_if<RankOutput>(&message)) return take_output(*piece, payload);
  if (const auto* ended = std::get_if<RankEnded>(&message)) {
    ended_[ended->rank.value] = *ended;
    bytes_before_end_.emplace(ended->rank.value, sizes_[ended->rank.value]);
  }
  if (const auto* seen = std::get_if<Progress>(&message)) progress_.push_back(*seen);
  if (const auto* data = std::get_if<FileData>(&message)) {
    std::string& file = files_[data->entry.path];
    if (static_cast<std::int64_t>(file.size()) != data->offset) fault = "file piece out of order";
    file += payload;
  }
  if (const auto* output = std::get_if<ExecOutput>(&message)) {
    exec_output_[output->id + (output->is_stderr ? "!" : "")] += payload;
  }
  if (const auto* asked = std::get_if<RemoteStartAsked>(&message); asked && on_remote_start) {
    on_remote_start(*asked);
  }
  if (const auto* over = std::get_if<RemoteStartEnded>(&message); over && on_remote_start_ended) {
    on_remote_start_ended(*over);
  }
  inbox_.push_back(std::move(message));
}

}  // namespace muster
