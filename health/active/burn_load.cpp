#include "health/active/burn_load.h"

#include <sys/resource.h>

#include <system_error>

#include "health/active/fixed_product.h"
#include "health/active/matrix_kernel.h"
#include "health/active/timed_passes.h"

namespace muster {

namespace {

constexpr int load_niceness = 10;

}  // namespace

BurnLoad::BurnLoad(const std::vector<int>& processors) {
  for (const int processor : processors) {
    workers_.push_back(std::make_unique<Worker>());
    workers_.back()->processor = processor;
  }
  try {
    for (const auto& worker : workers_) threads_.emplace_back([this, &worker] { run(*worker); });
  } catch (const std::system_error& error) {
    error_ = "cannot start thread " + std::to_string(threads_.size() + 1) + " of " +
             std::to_string(workers_.size()) + ": " + error.what();
  }
}

void BurnLoad::run(Worker& worker) {
  worker.is_reached = use_processor(worker.processor);
  if (!worker.is_reached) return;
  // Of this thread alone: who watches, and who feeds the GPUs, goes first.
  ::setpriority(PRIO_PROCESS, 0, load_niceness);
  FixedProduct product(matrix_kernels().front());
  while (!is_over_.load(std::memory_order_relaxed)) {
    product.multiply();
    worker.products.fetch_add(1, std::memory_order_relaxed);
  }
}

std::uint64_t BurnLoad::products() const {
  std::uint64_t sum = 0;
  for (const auto& worker : workers_) sum += worker->products.load(std::memory_order_relaxed);
  return sum;
}

void BurnLoad::stop() {
  is_over_.store(true, std::memory_order_relaxed);
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

std::vector<int> BurnLoad::unreached() const {
  std::vector<int> processors;
  for (const auto& worker : workers_) {
    if (!worker->is_reached) processors.push_back(worker->processor);
  }
  return processors;
}

}  // namespace muster
