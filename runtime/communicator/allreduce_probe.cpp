#include "runtime/communicator/allreduce_probe.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <span>
#include <vector>

namespace muster {

namespace {

constexpr int warm_up_rounds = 2;

struct Size {
  const char* metric;
  std::size_t bytes;
  int rounds;  // some seconds at most, also on a slow network
};
constexpr Size latency{"collective_latency_us", 8, 200};
constexpr Size small{"collective_1mib_gb_per_s", 1 << 20, 40};
constexpr Size large{"collective_64mib_gb_per_s", 64 << 20, 5};

class Allreduce {
 public:
  Allreduce(Communicator& ranks, std::size_t bytes)
      : ranks_(ranks), values_(bytes / sizeof(float)) {
    const std::size_t size = ranks.size();
    for (std::size_t r = 0; r < size; ++r) {
      owned_.push_back({values_.size() * r / size, values_.size() * (r + 1) / size});
    }
    const std::uint64_t own = owned_[ranks.rank()].size();
    for (std::size_t r = 0; r < size; ++r) in_.push_back({r * own, (r + 1) * own});
    received_.resize(own * size);
  }

  // Every rank puts in its number from 1 on.
  double seconds_of_round() {
    std::fill(values_.begin(), values_.end(), static_cast<float>(ranks_.rank() + 1));
    ranks_.gather_texts("");
    const auto begun = std::chrono::steady_clock::now();
    ranks_.all_to_all(values_, owned_, received_, in_);
    add_up();
    ranks_.all_gather(values_, owned_);
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
  }

  bool is_right() const {
    const auto size = static_cast<float>(ranks_.size());
    const float sum = size * (size + 1) / 2;
    return std::all_of(values_.begin(), values_.end(), [&](float value) { return value == sum; });
  }

 private:
  void add_up() {
    const ElementRange own = owned_[ranks_.rank()];
    const std::span<float> sums = std::span(values_).subspan(own.lo, own.size());
    std::copy_n(received_.begin(), sums.size(), sums.begin());
    for (std::size_t r = 1; r < ranks_.size(); ++r) {
      const float* part = received_.data() + r * sums.size();
      for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += part[i];
    }
  }

  Communicator& ranks_;
  std::vector<float> values_;
  std::vector<float> received_;
  std::vector<ElementRange> owned_;
  std::vector<ElementRange> in_;
};

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

AllreduceTime of_all_ranks(Communicator& ranks, double seconds, bool is_right) {
  AllreduceTime slowest{0, true};
  for (const AllreduceTime& time : gather_values(ranks, AllreduceTime{seconds, is_right})) {
    slowest.seconds = std::max(slowest.seconds, time.seconds);
    slowest.is_right = slowest.is_right && time.is_right;
  }
  return slowest;
}

void print_error(const char* metric, const char* why) {
  std::printf("%s - error %s\n", metric, why);
}

void print_figure(const char* metric, double value) {
  std::printf("%s - %.6g\n", metric, value);
}

}  // namespace

AllreduceTime time_allreduce(Communicator& ranks, std::size_t bytes, int rounds) {
  Allreduce allreduce(ranks, bytes);
  std::vector<double> seconds;
  for (int round = -warm_up_rounds; round < rounds; ++round) {
    const double took = allreduce.seconds_of_round();
    if (round >= 0) seconds.push_back(took);
  }
  return of_all_ranks(ranks, median(std::move(seconds)), allreduce.is_right());
}

double bus_gb_per_s(std::size_t ranks, std::size_t bytes, double seconds) {
  const auto size = static_cast<double>(ranks);
  return 2 * (size - 1) / size * static_cast<double>(bytes) / seconds / 1e9;
}

void probe_allreduce(Communicator& ranks) {
  for (const Size& size : {latency, small, large}) {
    const bool is_alone = ranks.size() < 2;
    const AllreduceTime time =
        is_alone ? AllreduceTime{} : time_allreduce(ranks, size.bytes, size.rounds);
    if (ranks.rank() != 0) continue;
    if (is_alone) {
      print_error(size.metric, "there is one rank only");
    } else if (!time.is_right) {
      print_error(size.metric, "the sums are wrong");
    } else if (size.bytes == latency.bytes) {
      print_figure(size.metric, time.seconds * 1e6);
    } else {
      print_figure(size.metric, bus_gb_per_s(ranks.size(), size.bytes, time.seconds));
    }
    std::fflush(stdout);
  }
}

}  // namespace muster
