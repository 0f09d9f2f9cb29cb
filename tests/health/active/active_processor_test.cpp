// The probes of processors and memory, for real, with arrays and times that are short.

#include <atomic>
#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <thread>

#include "health/active/cache_size.h"
#include "health/active/matrix_product.h"
#include "health/active/memory_probe.h"
#include "health/active/processor_list.h"
#include "health/active/timed_passes.h"
#include "health/benchmark/tools/stress_ng.h"
#include "tests/catch.h"

using namespace muster;
using namespace std::chrono_literals;

TEST_CASE("all workers prepare before any works, and each works in each pass") {
  const std::vector<int> processors = {usable_processors().front(), usable_processors().back(),
                                       usable_processors().front()};
  std::atomic<int> prepared{0};
  std::atomic<int> early{0};
  std::vector<std::atomic<int>> passes(3);
  TimedWork work;
  work.prepare = [&](std::size_t) { ++prepared; };
  work.pass = [&](std::size_t worker) {
    if (prepared != 3) ++early;
    ++passes[worker];
  };
  const auto seconds = time_passes(processors, work, {0ms, 5, 5});
  REQUIRE(seconds);
  CHECK(seconds->size() == 5);
  CHECK(early == 0);
  for (const auto& count : passes) CHECK(count == 5);
}

TEST_CASE("passes end with the time, and there are the least in any case") {
  TimedWork work;
  work.prepare = [](std::size_t) {};
  work.pass = [](std::size_t) { std::this_thread::sleep_for(2ms); };
  const auto begun = std::chrono::steady_clock::now();
  // 100,000 of them would take minutes.
  CHECK(time_passes(usable_processors(), work, {50ms, 1, 100'000})->size() < 100);
  CHECK(std::chrono::steady_clock::now() - begun < 60s);
  CHECK(time_passes(usable_processors(), work, {600s, 1, 4})->size() == 4);
  CHECK(time_passes(usable_processors(), work, {0ms, 3, 1000})->size() == 3);
}

TEST_CASE("the last caches count once each, however many processors share one") {
  SourceFiles files;
  const auto cache = [&](int processor, int index, const char* level, const char* size,
                         const char* shared) {
    const std::string at = "/sys/devices/system/cpu/cpu" + std::to_string(processor) +
                           "/cache/index" + std::to_string(index) + "/";
    files.add(at + "level", std::string(level) + "\n");
    files.add(at + "size", std::string(size) + "\n");
    files.add(at + "shared_cpu_list", std::string(shared) + "\n");
  };
  CHECK_FALSE(last_cache_bytes(files));
  for (int processor = 0; processor < 4; ++processor) {
    cache(processor, 0, "1", "32K", std::to_string(processor).c_str());
    cache(processor, 3, "3", processor < 2 ? "32768K" : "16M", processor < 2 ? "0-1" : "2-3");
  }
  CHECK(last_cache_bytes(files) == 48ull << 20);
  cache(5, 4, "4", "lots", "0-5");
  cache(6, 4, "four", "1M", "0-5");
  CHECK(last_cache_bytes(files) == 48ull << 20);
}

TEST_CASE("lists of processors are numbers and ranges") {
  CHECK(read_processor_list("0-3,8\n") == std::vector<int>{0, 1, 2, 3, 8});
  CHECK(read_processor_list("5") == std::vector<int>{5});
  for (const char* bad : {"", "\n", "a", "-1", "1-", "3-1", "1,", ",1", "1 2", "1-99999999",
                          "0-1000000,0-1000000,0-1000000"}) {
    INFO(bad);
    CHECK(read_processor_list(bad).empty());
  }
}

TEST_CASE("every kernel of this processor gives the product, whatever the sizes") {
  std::mt19937 random(7);
  const auto matrix = [&](std::size_t count) {
    std::vector<float> values(count);
    for (float& value : values) value = static_cast<float>(random() % 512) / 256.0f - 1.0f;
    return values;
  };
  REQUIRE(matrix_kernels().back().name == "portable");
  for (const MatrixKernel& kernel : matrix_kernels()) {
    for (const MatrixShape& shape : {MatrixShape{1, 1, 1}, MatrixShape{5, 3, 7},
                                     MatrixShape{12, 192, 32}, MatrixShape{37, 193, 65}}) {
      INFO(kernel.name << " " << shape.rows << " " << shape.depth << " " << shape.columns);
      const auto a = matrix(shape.rows * shape.depth);
      const auto b = matrix(shape.depth * shape.columns);
      std::vector<float> c(shape.rows * shape.columns, 99.0f);
      MatrixProduct(kernel, shape).multiply(a.data(), b.data(), c.data());
      double worst = 0;
      for (std::size_t row = 0; row < shape.rows; ++row) {
        for (std::size_t column = 0; column < shape.columns; ++column) {
          double sum = 0;
          for (std::size_t k = 0; k < shape.depth; ++k)
            sum += static_cast<double>(a[row * shape.depth + k]) * b[k * shape.columns + column];
          worst = std::max(worst, std::abs(sum - c[row * shape.columns + column]));
        }
      }
      CHECK(worst < 2e-3);
    }
  }
}

TEST_CASE("the processors compute, and all the same") {
  const auto rate = matrix_gflops({50ms, usable_processors()});
  REQUIRE(rate);
  CHECK(*rate > 0.05);
  CHECK(*rate < 1e6);
}

TEST_CASE("memory holds what the triad wrote, at a speed that there is") {
  const auto rate = triad_mb_per_s({50ms, 16ull << 20, usable_processors()});
  REQUIRE(rate);
  CHECK(*rate > 100);
  CHECK(*rate < 1e8);
}

TEST_CASE("arrays that take more than half of the memory are refused") {
  const auto rate = triad_mb_per_s({50ms, 1ull << 50, usable_processors()});
  REQUIRE_FALSE(rate);
  CHECK_THAT(rate.error().message, ContainsSubstring("may be used"));
}
