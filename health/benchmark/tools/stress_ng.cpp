#include "health/benchmark/tools/stress_ng.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <random>
#include <string>

#include "health/active/matrix_product.h"
#include "health/active/timed_passes.h"
#include "health/compare/majority.h"

namespace muster {

namespace {

// Whole tiles of all kernels; the three matrices and their panels take some 2 MiB.
constexpr std::size_t side = 384;
// In a pass, so that its begin and end weigh nothing.
constexpr int products = 16;
// No side is a multiple of a tile.
constexpr MatrixShape small{67, 401, 53};

std::vector<float> random_matrix(std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<float> values(count);
  for (float& value : values) value = static_cast<float>(random() % 2048) / 1024.0f - 1.0f;
  return values;
}

bool is_right_when_small(const MatrixKernel& kernel) {
  const auto a = random_matrix(small.rows * small.depth, 1);
  const auto b = random_matrix(small.depth * small.columns, 2);
  std::vector<float> c(small.rows * small.columns);
  MatrixProduct(kernel, small).multiply(a.data(), b.data(), c.data());
  for (std::size_t row = 0; row < small.rows; ++row) {
    for (std::size_t column = 0; column < small.columns; ++column) {
      double sum = 0;
      for (std::size_t k = 0; k < small.depth; ++k) {
        sum += static_cast<double>(a[row * small.depth + k]) * b[k * small.columns + column];
      }
      // Each of 401 additions of sums below 401 rounds by at most 2^-16.
      if (!(std::abs(c[row * small.columns + column] - sum) < 7e-3)) return false;
    }
  }
  return true;
}

struct Worker {
  explicit Worker(const MatrixKernel& kernel)
      : product(kernel, {side, side, side}),
        a(random_matrix(side * side, 3)),
        b(random_matrix(side * side, 4)),
        c(side * side) {}

  MatrixProduct product;
  std::vector<float> a;
  std::vector<float> b;
  std::vector<float> c;
};

// The processors whose product is not that of most.
std::vector<int> differing(const std::vector<std::unique_ptr<Worker>>& workers,
                           const std::vector<int>& processors) {
  const auto same = [](const Worker& one, const Worker& other) {
    return std::memcmp(one.c.data(), other.c.data(), one.c.size() * sizeof(float)) == 0;
  };
  std::vector<int> best(processors.size() + 1);
  // Of two that differ either may be wrong. The first four tell which product most have.
  for (std::size_t i = 0; i < std::min<std::size_t>(workers.size(), 4); ++i) {
    std::vector<int> others;
    for (std::size_t j = 0; j < workers.size(); ++j) {
      if (!same(*workers[i], *workers[j])) others.push_back(processors[j]);
    }
    if (others.size() < best.size()) best = others;
    if (best.empty()) break;
  }
  return best;
}

}  // namespace

Result<double> matrix_gflops(const MatrixProbeOptions& options) {
  const MatrixKernel& kernel = matrix_kernels().front();
  if (!is_right_when_small(kernel)) {
    return Error{"a product of small matrices by " + std::string(kernel.name) + " is wrong"};
  }
  std::vector<std::unique_ptr<Worker>> workers(options.processors.size());
  TimedWork work;
  // On the processor itself, so that its memory is near.
  work.prepare = [&](std::size_t i) { workers[i] = std::make_unique<Worker>(kernel); };
  work.pass = [&](std::size_t i) {
    Worker& own = *workers[i];
    for (int n = 0; n < products; ++n)
      own.product.multiply(own.a.data(), own.b.data(), own.c.data());
  };
  const auto seconds = time_passes(options.processors, work, {options.time});
  if (!seconds) return seconds.error();
  if (const auto wrong = differing(workers, options.processors); !wrong.empty()) {
    return Error{"processor " + std::to_string(wrong.front()) + " and " +
                 std::to_string(wrong.size() - 1) + " more compute another product than the rest"};
  }
  const double operations = 2.0 * side * side * side * products;
  return operations * static_cast<double>(workers.size()) / *median_of(*seconds) / 1e9;
}

}  // namespace muster
