// Ranks that join without mpirun exchange what they should, by memory and by TCP.

#include "runtime/communicator/mesh/mesh.h"

#include <numeric>
#include <random>

#include "runtime/protocol/crc32c.h"
#include "tests/runtime/process_world.h"
#include "tests/runtime/thread_communicator.h"

using namespace muster;
using namespace muster::test;

namespace {

// Every way in which two ranks may be connected.
const std::vector<std::pair<std::string, MeshOptions>> ways{
    {"memory read by address", {std::chrono::seconds(60), true, true}},
    {"memory through the ring", {std::chrono::seconds(60), true, false}},
    {"TCP", {std::chrono::seconds(60), false, false}}};

std::vector<float> random_floats(std::uint64_t seed, std::size_t count) {
  std::mt19937_64 random(seed);
  std::vector<float> values(count);
  for (float& value : values) value = static_cast<float>(random() % 1000003);
  return values;
}

// Ranges one after the other, with gaps, of the given lengths.
std::vector<ElementRange> laid_out(const std::vector<std::size_t>& lengths, std::size_t gap) {
  std::vector<ElementRange> ranges;
  std::uint64_t at = gap;
  for (const std::size_t length : lengths) {
    ranges.push_back({at, at + length});
    at += length + gap;
  }
  return ranges;
}

std::size_t end_of(const std::vector<ElementRange>& ranges) {
  return ranges.back().hi + 3;
}

// The lengths of one random operation: nothing, a few, or many elements from each to each.
std::vector<std::vector<std::size_t>> random_lengths(std::mt19937_64& random, std::size_t ranks) {
  std::vector<std::vector<std::size_t>> lengths(ranks, std::vector<std::size_t>(ranks));
  for (auto& row : lengths) {
    for (std::size_t& length : row) {
      const std::size_t kind = random() % 4;
      length = kind == 0 ? 0 : kind == 1 ? random() % 9 : random() % (kind == 2 ? 5000 : 900000);
    }
  }
  return lengths;
}

std::string checksum(const std::vector<float>& values) {
  return std::to_string(
      crc32c({reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)}));
}

// A mixture of all operations, several under way at a time; a text of all that arrived.
std::string exercise(Communicator& ranks, std::uint64_t seed) {
  std::mt19937_64 random(seed);  // alike on all ranks
  const std::size_t size = ranks.size();
  const std::size_t me = ranks.rank();
  std::string seen;
  for (int round = 0; round < 4; ++round) {
    const auto lengths = random_lengths(random, size);
    std::vector<std::size_t> in(size);
    for (std::size_t r = 0; r < size; ++r) in[r] = lengths[r][me];
    const auto send_ranges = laid_out(lengths[me], 2);
    const auto receive_ranges = laid_out(in, 5);
    const auto owned = laid_out(random_lengths(random, size)[0], 1);
    const auto send = random_floats(seed * 100 + me, end_of(send_ranges));
    std::vector<float> received(end_of(receive_ranges));
    std::vector<float> whole = random_floats(me, end_of(owned));
    std::vector<float> other = random_floats(me + 50, end_of(owned));
    // Only what is owned may differ between ranks afterwards.
    for (std::size_t i = 0; i < whole.size(); ++i) {
      const bool mine = i >= owned[me].lo && i < owned[me].hi;
      if (!mine) whole[i] = other[i] = -1;
    }
    const auto first = ranks.start_all_to_all(send, send_ranges, received, receive_ranges);
    const auto second = ranks.start_all_gather(whole, owned);
    const auto texts = ranks.gather_texts(
        std::string(static_cast<std::size_t>(random() % 40000), static_cast<char>('a' + me)));
    const auto third = ranks.start_all_gather(other, owned);
    third->wait();
    while (!first->done()) {
    }
    second->wait();
    first->wait();
    const std::size_t root = random() % size;
    std::string bytes(static_cast<std::size_t>(random() % 300000), '-');
    if (me == root) bytes.assign(bytes.size(), static_cast<char>('A' + root));
    ranks.broadcast(std::span(bytes.data(), bytes.size()), root);
    seen += checksum(received) + " " + checksum(whole) + " " + checksum(other) + " " +
            std::to_string(crc32c(std::accumulate(texts.begin(), texts.end(), std::string()))) +
            " " + std::to_string(crc32c(bytes)) + "\n";
  }
  return seen;
}

}  // namespace

TEST_CASE("any ranges come as they do between threads, by memory and by TCP") {
  for (const std::size_t size : {2, 3, 5}) {
    const std::uint64_t seed = 7 * size;
    std::vector<std::string> wanted(size);
    ThreadWorld(size).run(
        [&](Communicator& ranks) { wanted[ranks.rank()] = exercise(ranks, seed); });
    for (const auto& [way, options] : ways) {
      ProcessWorld world(size, {options});
      world.start([&](Communicator& ranks, const auto&) { return exercise(ranks, seed); });
      for (std::size_t r = 0; r < size; ++r) {
        INFO(way << ", rank " << r << " of " << size);
        CHECK(world.result(r) == wanted[r]);
      }
    }
  }
}

TEST_CASE("a rank may be far ahead of the others") {
  for (const auto& [way, options] : ways) {
    INFO(way);
    ProcessWorld world(3, {options});
    world.start([](Communicator& ranks, const auto&) {
      std::vector<std::vector<float>> wholes;
      std::vector<std::unique_ptr<Transfer>> transfers;
      const std::vector<ElementRange> owned{{0, 1000}, {1000, 70000}, {70000, 70000}};
      for (int i = 0; i < 40; ++i) wholes.emplace_back(70000, static_cast<float>(ranks.rank()));
      for (auto& whole : wholes) {
        transfers.push_back(ranks.start_all_gather(whole, owned));
        if (ranks.rank() != 0) transfers.back()->wait();
      }
      for (const auto& transfer : transfers) transfer->wait();
      bool right = true;
      for (const auto& whole : wholes) right = right && whole[0] == 0 && whole[69999] == 1;
      return std::string(right ? "right" : "wrong");
    });
    for (std::size_t r = 0; r < 3; ++r) CHECK(world.result(r) == "right");
  }
}

TEST_CASE("ranks that are not in the same operation say which ranks and which operations") {
  for (const auto& [way, options] : ways) {
    INFO(way);
    ProcessWorld world(2, {options});
    world.start([](Communicator& ranks, const auto&) {
      ranks.gather_texts("together");
      std::vector<float> whole(8);
      if (ranks.rank() == 0) ranks.gather_texts("alone");
      ranks.all_gather(whole, std::vector<ElementRange>{{0, 4}, {4, 8}});
      return std::string("went on");
    });
    const std::string both = world.result(0) + "\n" + world.result(1);
    // Their lengths are said too where both are known by then.
    CHECK_THAT(both, ContainsSubstring("rank 1 is in all_gather number 2"));
    CHECK_THAT(both, ContainsSubstring("rank 0 in gather_texts number 2"));
    CHECK_THAT(both, !ContainsSubstring("went on"));
  }
}

TEST_CASE("ranks that expect other lengths say so") {
  ProcessWorld world(2, {});
  world.start([](Communicator& ranks, const auto&) {
    std::vector<float> whole(8);
    const std::uint64_t border = 4 + ranks.rank();
    ranks.all_gather(whole, std::vector<ElementRange>{{0, border}, {border, 8}});
    return std::string("went on");
  });
  CHECK_THAT(world.result(0) + world.result(1),
             ContainsSubstring("all_gather number 1 of 16 bytes"));
}
