#include "health/active/tcp_bulk.h"

#include <algorithm>
#include <fstream>
#include <functional>
#include <numeric>
#include <string>
#include <system_error>
#include <thread>

namespace muster {

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t piece_bytes = 1 << 20;

struct StreamReceipt {
  std::uint64_t bytes = 0;
  ProbeMoment first = ProbeMoment::max();
  ProbeMoment last = ProbeMoment::min();
};

// Of the calling thread: on a processor that others have. Kernels without accounts tell none.
double waited_ns() {
  std::ifstream accounts("/proc/thread-self/schedstat");
  double ran = 0;
  double waited = 0;
  return accounts >> ran >> waited ? waited : 0;
}

template <class Outcome>
struct Outcomes {
  std::vector<Outcome> of_streams;
  double waited = 0;  // part of the time, on the average
};

// Each stream's outcome, or the first error.
template <class Outcome>
Result<Outcomes<Outcome>> on_each(std::vector<ProbeSocket>& streams,
                                  const std::function<Result<Outcome>(ProbeSocket&)>& work) {
  std::vector<Result<Outcome>> results(streams.size(), Error{"not run"});
  std::vector<double> waits_ns(streams.size(), 0);
  const auto began = Clock::now();
  std::vector<std::thread> threads;
  std::string why;
  try {
    for (std::size_t i = 0; i < streams.size(); ++i)
      threads.emplace_back([&, i] {
        results[i] = work(streams[i]);
        waits_ns[i] = waited_ns();
      });
  } catch (const std::system_error& error) {
    // The others end at once rather than at their deadline.
    why = std::string("cannot start a thread for each stream: ") + error.what();
    for (ProbeSocket& stream : streams) stream.break_off();
  }
  for (std::thread& thread : threads) thread.join();
  if (!why.empty()) return Error{why};
  Outcomes<Outcome> outcomes;
  for (const auto& result : results) {
    if (!result) return result.error();
    outcomes.of_streams.push_back(*result);
  }
  const double took_ns = std::chrono::duration<double, std::nano>(Clock::now() - began).count();
  const double all_ns = std::accumulate(waits_ns.begin(), waits_ns.end(), 0.0);
  outcomes.waited = all_ns / (took_ns * static_cast<double>(streams.size()));
  return outcomes;
}

Result<Done> send_until(ProbeSocket& stream, ProbeMoment end, std::chrono::milliseconds grace) {
  const std::string piece(piece_bytes, '\x5a');
  while (Clock::now() < end) {
    const auto sent = stream.send_some(piece, Clock::now() + grace);
    if (!sent) return sent.error();
    if (*sent == 0) return Error{"send: the other side takes nothing"};
  }
  stream.end_sending();
  return Done{};
}

Result<StreamReceipt> receive_until_end(ProbeSocket& stream, ProbeMoment until) {
  std::vector<char> piece(piece_bytes);
  StreamReceipt receipt;
  while (Clock::now() < until) {
    const auto came = stream.receive(piece.data(), piece.size(), until);
    if (!came) return came.error();
    if (*came == 0) return receipt;
    const auto now = Clock::now();
    if (receipt.bytes == 0) receipt.first = now;
    receipt.last = now;
    receipt.bytes += *came;
  }
  return Error{"receive: the other side does not end in time"};
}

}  // namespace

Result<double> send_bulk(std::vector<ProbeSocket>& streams, std::chrono::milliseconds time,
                 std::chrono::milliseconds grace) {
  const auto end = Clock::now() + time;
  const auto sent =
      on_each<Done>(streams, [&](ProbeSocket& stream) { return send_until(stream, end, grace); });
  if (!sent) return sent.error();
  return sent->waited;
}

Result<BulkReceipt> receive_bulk(std::vector<ProbeSocket>& streams, ProbeMoment until) {
  const auto received = on_each<StreamReceipt>(
      streams, [&](ProbeSocket& stream) { return receive_until_end(stream, until); });
  if (!received) return received.error();
  BulkReceipt all;
  ProbeMoment first = ProbeMoment::max();
  ProbeMoment last = ProbeMoment::min();
  for (const StreamReceipt& one : received->of_streams) {
    all.bytes += one.bytes;
    first = std::min(first, one.first);
    last = std::max(last, one.last);
  }
  if (last <= first) return Error{"too little came to measure its time"};
  all.took = last - first;
  all.waited = received->waited;
  return all;
}

double gbps_of(const BulkReceipt& receipt) {
  return static_cast<double>(receipt.bytes) * 8 / static_cast<double>(receipt.took.count());
}

}  // namespace muster
