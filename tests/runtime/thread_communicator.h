// Ranks as threads of the test's process, so that whole runs at any world size fit into a unit
// test.
//
// Every collective is: publish my arguments, wait for all, copy what is mine, wait for all. A
// transfer under way does each of them when it can: whenever a rank asks or waits for anything, it
// copies what all have published.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <cstdlib>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "runtime/communicator/communicator.h"

namespace muster::test {

class ThreadWorld {
 public:
  explicit ThreadWorld(std::size_t size) : slots_(size) {}

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
    std::string_view text;
    std::span<char> bytes;
  };

  // What the ranks have published of the n-th transfer, and who has not copied yet.
  struct Board {
    explicit Board(std::size_t size) : floats(size), ranges(size), copies(size) {}
    std::vector<std::span<const float>> floats;
    std::vector<std::vector<ElementRange>> ranges;
    std::vector<std::function<void(const Board&)>> copies;
    std::size_t published = 0;
    std::size_t copied = 0;
  };

  std::shared_ptr<Board> publish(std::size_t number, std::size_t rank,
                                 std::span<const float> floats,
                                 std::span<const ElementRange> ranges,
                                 std::function<void(const Board&)> copy) {
    const std::lock_guard lock(mutex_);
    auto& board = boards_[number];
    if (!board) board = std::make_shared<Board>(slots_.size());
    board->floats[rank] = floats;
    board->ranges[rank].assign(ranges.begin(), ranges.end());
    board->copies[rank] = std::move(copy);
    ++board->published;
    changed_.notify_all();
    return board;
  }

  // With the lock held.
  void copy_what_is_there(std::size_t rank) {
    for (auto at = boards_.begin(); at != boards_.end();) {
      Board& board = *at->second;
      if (board.published == slots_.size() && board.copies[rank]) {
        std::exchange(board.copies[rank], nullptr)(board);
        ++board.copied;
        changed_.notify_all();
      }
      at = board.copied == slots_.size() ? boards_.erase(at) : std::next(at);
    }
  }

  template <class Condition>
  void wait_until(std::size_t rank, Condition condition) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] {
      copy_what_is_there(rank);
      return condition();
    });
  }

  void meet(std::size_t rank) {
    std::unique_lock lock(mutex_);
    const std::size_t meeting = arrived_++ / slots_.size();
    changed_.notify_all();
    lock.unlock();
    wait_until(rank, [&] { return arrived_ / slots_.size() > meeting; });
  }

  class ThreadTransfer final : public Transfer {
   public:
    ThreadTransfer(ThreadWorld& world, std::size_t rank, std::shared_ptr<Board> board)
        : world_(world), rank_(rank), board_(std::move(board)) {}

    bool done() override {
      const std::lock_guard lock(world_.mutex_);
      world_.copy_what_is_there(rank_);
      return is_over();
    }
    void wait() override {
      world_.wait_until(rank_, [&] { return is_over(); });
    }

   private:
    bool is_over() const { return board_->copied == world_.slots_.size(); }

    ThreadWorld& world_;
    std::size_t rank_;
    std::shared_ptr<Board> board_;
  };

  class Rank final : public Communicator {
   public:
    Rank(ThreadWorld& world, std::size_t rank) : world_(world), rank_(rank) {}
    std::size_t rank() const override { return rank_; }
    std::size_t size() const override { return world_.slots_.size(); }

    std::unique_ptr<Transfer> start_all_to_all(
        std::span<const float> send, std::span<const ElementRange> send_ranges,
        std::span<float> receive, std::span<const ElementRange> receive_ranges) override {
      const std::vector<ElementRange> in(receive_ranges.begin(), receive_ranges.end());
      return start(send, send_ranges, [this, receive, in](const Board& board) {
        for (std::size_t r = 0; r < size(); ++r) {
          const ElementRange from = board.ranges[r][rank_];
          if (from.size() != in[r].size()) std::abort();
          if (from.size() == 0) continue;
          std::copy_n(&board.floats[r][from.lo], from.size(), &receive[in[r].lo]);
        }
      });
    }

    std::unique_ptr<Transfer> start_all_gather(std::span<float> whole,
                                               std::span<const ElementRange> owned) override {
      return start(whole, owned, [this, whole](const Board& board) {
        for (std::size_t r = 0; r < size(); ++r) {
          const ElementRange part = board.ranges[r][r];
          if (part != board.ranges[rank_][r]) std::abort();
          if (r == rank_ || part.size() == 0) continue;
          std::copy_n(&board.floats[r][part.lo], part.size(), &whole[part.lo]);
        }
      });
    }

    std::vector<std::string> gather_texts(std::string_view mine) override {
      publish({mine, {}});
      std::vector<std::string> texts;
      for (const Slot& slot : world_.slots_) texts.emplace_back(slot.text);
      world_.meet(rank_);
      return texts;
    }

    void broadcast(std::span<char> bytes, std::size_t root) override {
      publish({{}, bytes});
      const std::span<char> source = world_.slots_[root].bytes;
      if (rank_ != root) std::copy(source.begin(), source.end(), bytes.begin());
      world_.meet(rank_);
    }

    void abort(int exit_code) override { std::_Exit(exit_code); }

   private:
    std::unique_ptr<Transfer> start(std::span<const float> floats,
                                    std::span<const ElementRange> ranges,
                                    std::function<void(const Board&)> copy) {
      return std::make_unique<ThreadTransfer>(
          world_, rank_, world_.publish(started_++, rank_, floats, ranges, std::move(copy)));
    }

    void publish(const Slot& slot) {
      world_.slots_[rank_] = slot;
      world_.meet(rank_);
    }

    ThreadWorld& world_;
    std::size_t rank_;
    std::size_t started_ = 0;  // transfers
  };

  std::vector<Slot> slots_;
  std::mutex mutex_;  // guards what follows, and every board
  std::condition_variable changed_;
  std::map<std::size_t, std::shared_ptr<Board>> boards_;  // of transfers under way, by number
  std::size_t arrived_ = 0;                               // at meetings, all together
};

}  // namespace muster::test
