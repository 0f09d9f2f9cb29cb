#include "runtime/communicator/clock_offset.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>

namespace muster {
namespace {

// The first tries may meet cold paths; in a large world all tries together take long.
constexpr int usual_tries = 8;
constexpr int tries_of_many = 3;
constexpr std::size_t many_ranks = 64;

std::int64_t now_ns() {
  using namespace std::chrono;
  return duration_cast<nanoseconds>(steady_clock::now().time_since_epoch()).count();
}

// Communicators move floats; the bits of a time travel as two of them.
using TimeBits = std::array<float, 2>;

TimeBits send_time(Communicator& ranks, std::size_t from, std::size_t to, std::int64_t time) {
  TimeBits out{}, in{};
  static_assert(sizeof out == sizeof time);
  std::memcpy(out.data(), &time, sizeof time);
  std::vector<ElementRange> send(ranks.size()), receive(ranks.size());
  if (ranks.rank() == from) send[to] = {0, out.size()};
  if (ranks.rank() == to) receive[from] = {0, in.size()};
  ranks.all_to_all(out, send, in, receive);
  return in;
}

}  // namespace

RankClock offset_of(std::span<const ClockAnswer> answers) {
  const auto round_trip = [](const ClockAnswer& at) { return at.received_ns - at.sent_ns; };
  const ClockAnswer& best = *std::ranges::min_element(answers, {}, round_trip);
  const std::int64_t half = round_trip(best) / 2;
  return {best.answered_ns - (best.sent_ns + half), half + 1};
}

std::vector<RankClock> measure_clock_offsets(Communicator& ranks) {
  std::vector<RankClock> offsets(ranks.rank() == 0 ? 1 : 0);
  const int tries = ranks.size() > many_ranks ? tries_of_many : usual_tries;
  for (std::size_t other = 1; other < ranks.size(); ++other) {
    std::vector<ClockAnswer> answers;
    for (int i = 0; i < tries; ++i) {
      ClockAnswer answer;
      answer.sent_ns = now_ns();
      send_time(ranks, 0, other, answer.sent_ns);
      const TimeBits bits = send_time(ranks, other, 0, now_ns());
      answer.received_ns = now_ns();
      std::memcpy(&answer.answered_ns, bits.data(), sizeof answer.answered_ns);
      answers.push_back(answer);
    }
    if (ranks.rank() == 0) offsets.push_back(offset_of(answers));
  }
  return offsets;
}

}  // namespace muster
