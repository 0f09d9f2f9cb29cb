#include "health/active/allreduce_meeting.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>

#include "health/active/probe_door.h"
#include "health/benchmark/tools/sample_line.h"

namespace muster {

namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

// The id as digits, and a few numbers.
constexpr std::size_t line_max = 512;
constexpr std::string_view failed_word = "failed ";
constexpr milliseconds saying_limit{1'000};

std::string hex_of(const AllreduceId& id) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string text;
  for (const unsigned char byte : id) {
    text += digits[byte / 16];
    text += digits[byte % 16];
  }
  return text;
}

std::optional<AllreduceId> id_in(std::string_view hex) {
  AllreduceId id{};
  if (hex.size() != 2 * id.size()) return std::nullopt;
  for (std::size_t i = 0; i < id.size(); ++i) {
    const char* at = hex.data() + 2 * i;
    const auto [end, error] = std::from_chars(at, at + 2, id[i], 16);
    if (error != std::errc() || end != at + 2) return std::nullopt;
  }
  return id;
}

bool is_failure(const std::string& line) {
  return line.starts_with(failed_word);
}

// What may come from the network ends in a line for people.
std::string why_of(const std::string& failure) {
  return "the other node: " + probe_text(std::string_view(failure).substr(failed_word.size()));
}

Error unexpected(const std::string& line) {
  if (is_failure(line)) return Error{why_of(line)};
  return unexpected_of_probe(probe_text(line));
}

Error of_two_versions(int own, int other) {
  return Error{"NCCL is of version " + std::to_string(own) + " on one node and of " +
               std::to_string(other) + " on the other"};
}

void check_node(const AllreduceNode& node, const std::string& token) {
  check(is_probe_token(token), "an all-reduce of two nodes without a token");
  check(node.gpus >= 1 && node.gpus <= allreduce_gpus_max, "GPUs of an all-reduce");
  check(node.bytes >= allreduce_bytes_least && node.bytes <= allreduce_bytes_max,
        "bytes of an all-reduce");
}

std::string said_of(const AllreduceNode& node) {
  return std::to_string(node.gpus) + " " + std::to_string(node.bytes);
}

struct Wish {
  AllreduceNode node;
  milliseconds time{0};
};

std::optional<Wish> wish_in(const std::vector<std::string>& words) {
  if (words.size() != 5 || words[0] != "allreduce") return std::nullopt;
  const auto version = probe_number<int>(words[1], 1, 1'000'000'000);
  const auto gpus = probe_number<int>(words[2], 1, allreduce_gpus_max);
  const auto bytes =
      probe_number<std::uint64_t>(words[3], allreduce_bytes_least, allreduce_bytes_max);
  const auto time = probe_number<std::int64_t>(words[4], 1, allreduce_time_max.count());
  if (!version || !gpus || !bytes || !time) return std::nullopt;
  return Wish{{*version, *gpus, *bytes}, milliseconds(*time)};
}

}  // namespace

Result<AllreduceMeeting> AllreduceMeeting::serve(const AllreduceServing& options,
                                                 const AllreduceNode& own,
                                                 const MakeAllreduceId& make_id) {
  check_node(own, options.token);
  AllreduceMeeting meeting;
  if (Status met = meeting.admit(options, own); !met) return met.error();
  Status given = meeting.hand_out(options, own, make_id);
  if (given) return meeting;
  meeting.fail(given.error().message);
  return given.error();
}

Status AllreduceMeeting::admit(const AllreduceServing& options, const AllreduceNode& own) {
  auto listener = listen_on(options.address, options.port);
  if (!listener) return listener.error();
  if (options.listening) options.listening(port_of(*listener));
  auto guest = ProbeDoor(options.token, std::move(*listener)).next(Clock::now() + options.wait);
  if (!guest) return guest.error();
  socket_ = std::move(guest->socket);
  socket_.send_at_once();
  interface_ = interface_of(socket_);
  const auto wish = wish_in(guest->words);
  Status fits = Done{};
  if (!wish) fits = Error{"the partner does not begin as it should"};
  if (wish && wish->node.nccl_version != own.nccl_version)
    fits = of_two_versions(own.nccl_version, wish->node.nccl_version);
  if (!fits) {
    fail(fits.error().message);
    return fits;
  }
  ranks_ = own.gpus + wish->node.gpus;
  bytes_ = std::min(own.bytes, wish->node.bytes);
  time_ = wish->time;
  return Done{};
}

Status AllreduceMeeting::hand_out(const AllreduceServing& options, const AllreduceNode& own,
                                  const MakeAllreduceId& make_id) {
  const auto id = make_id(interface_);
  if (!id) return id.error();
  id_ = *id;
  return socket_.send_all("id " + hex_of(id_) + " " + said_of(own) + "\n",
                          Clock::now() + options.grace);
}

Result<AllreduceMeeting> AllreduceMeeting::connect(const AllreduceConnecting& options,
                                                   const AllreduceNode& own) {
  check_node(own, options.token);
  check(options.time.count() >= 1 && options.time <= allreduce_time_max, "time of an all-reduce");
  AllreduceMeeting meeting;
  const std::string wish = "allreduce " + std::to_string(own.nccl_version) + " " + said_of(own) +
                           " " + std::to_string(options.time.count());
  auto socket =
      greet_probe({options.host, options.port, options.token}, wish, Clock::now() + options.wait);
  if (!socket) return socket.error();
  meeting.socket_ = std::move(*socket);
  meeting.socket_.send_at_once();
  meeting.interface_ = interface_of(meeting.socket_);
  if (Status taken = meeting.take_id(options, own); !taken) return taken.error();
  return meeting;
}

Status AllreduceMeeting::take_id(const AllreduceConnecting& options, const AllreduceNode& own) {
  const auto line = socket_.receive_line(Clock::now() + options.grace, line_max);
  if (!line) return line.error();
  const auto words = words_of_probe(*line);
  if (words.size() != 4 || words[0] != "id") return unexpected(*line);
  const auto id = id_in(words[1]);
  const auto gpus = probe_number<int>(words[2], 1, allreduce_gpus_max);
  const auto bytes =
      probe_number<std::uint64_t>(words[3], allreduce_bytes_least, allreduce_bytes_max);
  if (!id || !gpus || !bytes) return unexpected(*line);
  id_ = *id;
  ranks_ = *gpus + own.gpus;
  first_rank_ = *gpus;
  bytes_ = std::min(own.bytes, *bytes);
  time_ = options.time;
  return Done{};
}

Result<std::int64_t> AllreduceMeeting::agree(std::string_view step, std::int64_t number,
                                             ProbeMoment until) {
  check(number >= 0, "a number of an all-reduce");
  const std::string name(step);
  if (Status said = socket_.send_all(name + " " + std::to_string(number) + "\n", until); !said) {
    return Error{trouble().value_or(said.error().message)};
  }
  const auto line = socket_.receive_line(until, line_max);
  if (!line) return line.error();
  const auto words = words_of_probe(*line);
  const auto other = words.size() == 2 && words[0] == name
                         ? probe_number<std::int64_t>(words[1], 0, INT64_MAX)
                         : std::nullopt;
  if (!other) return unexpected(*line);
  return std::max(number, *other);
}

std::optional<std::string> AllreduceMeeting::trouble() {
  pollfd watched{socket_.fd(), POLLRDHUP, 0};
  if (::poll(&watched, 1, 0) <= 0) return std::nullopt;
  // What it said of its steps before does not matter any more.
  for (;;) {
    const auto line = socket_.receive_line(Clock::now() + saying_limit, line_max);
    if (!line) return "the other node is gone";
    if (is_failure(*line)) return why_of(*line);
  }
}

void AllreduceMeeting::fail(std::string_view why) {
  const std::string line = std::string(failed_word) + probe_text(why) + "\n";
  (void)socket_.send_all(line, Clock::now() + saying_limit);  // it may be gone
  socket_.end_sending();
}

}  // namespace muster
