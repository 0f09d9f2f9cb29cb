// Ranks as threads of the test's process, so that whole runs at any world size fit into a unit
// test.
//
// Every collective is: publish my arguments, wait for all, copy what is mine, wait for all.
#pragma once

#include <algorithm>
#include <barrier>
#include <cstdlib>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "runtime/communicator/communicator.h"

namespace muster::test {

class ThreadWorld {
 public:
  explicit ThreadWorld(std::size_t size)
      : slots_(size), barrier_(static_cast<std::ptrdiff_t>(size)) {}

  // Runs `part` once per rank, each on its own thread, and waits for all.
  void run(const std::function<void(Communicator&)>& part) {
    std::vector<std::thread> threads;
    for (std::size_t r = 0; r < slots_.size(); ++r) {
      threads.emplace_back([this, r, &part] {
        Rank rank(*this, r);
        part(rank);
      });
    }
    for (std::thread& thread : threads) thread.join();
  }

 private:
  struct Slot {
    std::span<const float> floats;
    std::span<const ElementRange> ranges;
    std::string_view text;
    std::span<char> bytes;
  };

  class Rank final : public Communicator {
   public:
    Rank(ThreadWorld& world, std::size_t rank) : world_(world), rank_(rank) {}
    std::size_t rank() const override { return rank_; }
    std::size_t size() const override { return world_.slots_.size(); }

    void all_to_all(std::span<const float> send, std::span<const ElementRange> send_ranges,
                    std::span<float> receive,
                    std::span<const ElementRange> receive_ranges) override {
      publish({send, send_ranges, {}, {}});
      for (std::size_t r = 0; r < size(); ++r) {
        const ElementRange from = world_.slots_[r].ranges[rank_];
        if (from.size() != receive_ranges[r].size()) std::abort();
        if (from.size() == 0) continue;
        std::copy_n(&world_.slots_[r].floats[from.lo], from.size(), &receive[receive_ranges[r].lo]);
      }
      world_.barrier_.arrive_and_wait();
    }

    void all_gather(std::span<float> whole, std::span<const ElementRange> owned) override {
      publish({whole, owned, {}, {}});
      for (std::size_t r = 0; r < size(); ++r) {
        if (r == rank_ || owned[r].size() == 0) continue;
        std::copy_n(&world_.slots_[r].floats[owned[r].lo], owned[r].size(), &whole[owned[r].lo]);
      }
      world_.barrier_.arrive_and_wait();
    }

    std::vector<std::string> gather_texts(std::string_view mine) override {
      publish({{}, {}, mine, {}});
      std::vector<std::string> texts;
      for (const Slot& slot : world_.slots_) texts.emplace_back(slot.text);
      world_.barrier_.arrive_and_wait();
      return texts;
    }

    void broadcast(std::span<char> bytes, std::size_t root) override {
      publish({{}, {}, {}, bytes});
      const std::span<char> source = world_.slots_[root].bytes;
      if (rank_ != root) std::copy(source.begin(), source.end(), bytes.begin());
      world_.barrier_.arrive_and_wait();
    }

    void abort(int exit_code) override { std::_Exit(exit_code); }

   private:
    void publish(const Slot& slot) {
      world_.slots_[rank_] = slot;
      world_.barrier_.arrive_and_wait();
    }

    ThreadWorld& world_;
    std::size_t rank_;
  };

  std::vector<Slot> slots_;
  std::barrier<> barrier_;
};

}  // namespace muster::test
