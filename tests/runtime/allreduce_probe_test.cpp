#include "runtime/communicator/allreduce_probe.h"

#include "tests/catch.h"
#include "tests/runtime/thread_communicator.h"

using namespace muster;
using namespace muster::test;

namespace {

// Passes all on, but that one element of what it gets is another one.
class FaultyRank final : public Communicator {
 public:
  explicit FaultyRank(Communicator& true_one) : true_one_(true_one) {}
  std::size_t rank() const override { return true_one_.rank(); }
  std::size_t size() const override { return true_one_.size(); }
  std::unique_ptr<Transfer> start_all_to_all(
      std::span<const float> send, std::span<const ElementRange> send_ranges,
      std::span<float> receive, std::span<const ElementRange> receive_ranges) override {
    return true_one_.start_all_to_all(send, send_ranges, receive, receive_ranges);
  }
  std::unique_ptr<Transfer> start_all_gather(std::span<float> whole,
                                             std::span<const ElementRange> owned) override {
    auto transfer = true_one_.start_all_gather(whole, owned);
    transfer->wait();
    whole.back() += 1;
    return transfer;
  }
  std::vector<std::string> gather_texts(std::string_view mine) override {
    return true_one_.gather_texts(mine);
  }
  void broadcast(std::span<char> bytes, std::size_t root) override {
    true_one_.broadcast(bytes, root);
  }
  void abort(int exit_code) override { true_one_.abort(exit_code); }

 private:
  Communicator& true_one_;
};

}  // namespace

TEST_CASE("an all-reduce gives all ranks the sum, and all know the slowest rank's time") {
  for (const std::size_t size : {2, 3, 5}) {
    std::vector<AllreduceTime> times(size);
    // Also fewer elements than ranks.
    for (const std::size_t bytes : {8, 4096}) {
      ThreadWorld(size).run(
          [&](Communicator& ranks) { times[ranks.rank()] = time_allreduce(ranks, bytes, 3); });
      for (const AllreduceTime& time : times) {
        CHECK(time.is_right);
        CHECK(time.seconds > 0);
        CHECK(time.seconds == times[0].seconds);
      }
    }
  }
}

TEST_CASE("a wrong sum on one rank is known to all") {
  std::vector<AllreduceTime> times(3);
  ThreadWorld(3).run([&](Communicator& ranks) {
    FaultyRank faulty(ranks);
    Communicator& mine = ranks.rank() == 1 ? static_cast<Communicator&>(faulty) : ranks;
    times[ranks.rank()] = time_allreduce(mine, 4096, 3);
  });
  for (const AllreduceTime& time : times) CHECK_FALSE(time.is_right);
}

TEST_CASE("bus bandwidth is what each link of a ring carries") {
  CHECK(bus_gb_per_s(2, 1'000'000'000, 1) == 1.0);
  CHECK(bus_gb_per_s(4, 1'000'000'000, 0.5) == 3.0);
  CHECK(bus_gb_per_s(8, 1'000'000'000, 1) == 1.75);
}
