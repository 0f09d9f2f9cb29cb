#include "runtime/communicator/communicator.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>

#include "tests/catch.h"
#include "tests/runtime/folder.h"
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

// One of two, of whom the other says what it measured, and whose sums come from nobody.
class RankBesideOther final : public Communicator {
 public:
  RankBesideOther(std::size_t rank, std::string others_figure)
      : rank_(rank), others_figure_(std::move(others_figure)) {}
  std::size_t rank() const override { return rank_; }
  std::size_t size() const override { return 2; }
  std::unique_ptr<Transfer> start_all_to_all(std::span<const float>, std::span<const ElementRange>,
                                             std::span<float>,
                                             std::span<const ElementRange>) override {
    return std::make_unique<Done>();
  }
  std::unique_ptr<Transfer> start_all_gather(std::span<float> whole,
                                             std::span<const ElementRange>) override {
    std::fill(whole.begin(), whole.end(), 3.0f);
    return std::make_unique<Done>();
  }
  std::vector<std::string> gather_texts(std::string_view mine) override {
    return {std::string(mine), others_figure_};
  }
  void broadcast(std::span<char>, std::size_t) override {}
  void abort(int) override {}

 private:
  struct Done final : Transfer {
    bool done() override { return true; }
    void wait() override {}
  };
  std::size_t rank_;
  std::string others_figure_;
};

std::string printed_by_probe(Communicator& ranks) {
  const Folder folder;
  std::fflush(stdout);
  const int before = ::dup(STDOUT_FILENO);
  const int file = ::open((folder / "out").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  ::dup2(file, STDOUT_FILENO);
  probe_allreduce(ranks);
  ::dup2(before, STDOUT_FILENO);
  ::close(before);
  ::close(file);
  return content_of(folder / "out");
}

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

TEST_CASE("rank 0 prints a line for each figure: microseconds, then GB/s of the slowest rank") {
  RankBesideOther first(0, "64 1");
  CHECK(printed_by_probe(first) ==
        "collective_latency_us - 6.4e+07\n"
        "collective_1mib_gb_per_s - 1.6384e-05\n"
        "collective_64mib_gb_per_s - 0.00104858\n");
}

TEST_CASE("other ranks than the first print nothing") {
  RankBesideOther second(1, "64 1");
  CHECK(printed_by_probe(second).empty());
}

TEST_CASE("where there is no figure the benchmark says why") {
  const auto errors = [](const std::string& why) {
    std::string lines;
    for (const char* metric :
         {"collective_latency_us", "collective_1mib_gb_per_s", "collective_64mib_gb_per_s"}) {
      lines += std::string(metric) + " - error " + why + "\n";
    }
    return lines;
  };
  CHECK(printed_by_probe(*make_single_communicator()) == errors("there is one rank only"));
  RankBesideOther beside_wrong(0, "64 0");
  CHECK(printed_by_probe(beside_wrong) == errors("the sums are wrong"));
}

TEST_CASE("a figure of another rank that cannot be read is no right one") {
  for (const char* odd : {"", "64", "x 1", "64 2", "64 0"}) {
    RankBesideOther ranks(0, odd);
    CHECK_FALSE(time_allreduce(ranks, 8, 1).is_right);
  }
  RankBesideOther ranks(0, "64 1");
  CHECK(time_allreduce(ranks, 8, 1).is_right);
  CHECK(time_allreduce(ranks, 8, 1).seconds == 64);
}
