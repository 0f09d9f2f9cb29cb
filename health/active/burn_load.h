// All processors at work: the product of matrices on each of them, over and over, until it is
// ended. Threads live from the constructor to stop(); the process is a probe's own.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace muster {

class BurnLoad {
 public:
  explicit BurnLoad(const std::vector<int>& processors);
  ~BurnLoad() { stop(); }
  BurnLoad(const BurnLoad&) = delete;

  std::uint64_t products() const;  // that are done
  void stop();                     // within the time of a product

  const std::string& error() const { return error_; }  // empty: all threads were started
  // Once it was stopped: processors that the system did not let it use.
  std::vector<int> unreached() const;

 private:
  // Apart from each other in memory: each is written all the time.
  struct alignas(64) Worker {
    int processor = 0;
    bool is_reached = false;
    std::atomic<std::uint64_t> products{0};
  };
  void run(Worker& worker);

  std::atomic<bool> is_over_{false};
  std::vector<std::unique_ptr<Worker>> workers_;
  std::vector<std::thread> threads_;
  std::string error_;
};

}  // namespace muster
