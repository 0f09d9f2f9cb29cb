#include "health/active/memory_probe.h"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstddef>

#include "health/active/cache_size.h"
#include "health/active/timed_passes.h"
#include "health/checks/host/facts.h"
#include "health/read/files.h"

#if defined(__x86_64__)
#include <emmintrin.h>
#endif

namespace muster {

namespace {

constexpr double scale = 3;
constexpr double b_value = 2;
constexpr double c_value = 0.5;
constexpr std::size_t line_doubles = 8;  // parts begin at cache lines

// Pages that come when they are first written, near the processor that does.
class FirstTouchArray {
 public:
  explicit FirstTouchArray(std::size_t count) : bytes_(count * sizeof(double)) {
    void* at = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) return;
    data_ = static_cast<double*>(at);
    ::madvise(at, bytes_, MADV_HUGEPAGE);  // fewer address translations; refused, it works as well
  }
  ~FirstTouchArray() {
    if (data_ != nullptr) ::munmap(data_, bytes_);
  }
  FirstTouchArray(const FirstTouchArray&) = delete;
  double* data() const { return data_; }

 private:
  std::size_t bytes_;
  double* data_ = nullptr;
};

void triad(double* a, const double* b, const double* c, std::size_t count) {
#if defined(__x86_64__)
  const __m128d factor = _mm_set1_pd(scale);
  for (std::size_t i = 0; i < count; i += 2) {
    const __m128d product = _mm_mul_pd(factor, _mm_load_pd(c + i));
    _mm_stream_pd(a + i, _mm_add_pd(_mm_load_pd(b + i), product));
  }
  _mm_sfence();
#else
  for (std::size_t i = 0; i < count; ++i) a[i] = b[i] + scale * c[i];
#endif
}

struct Part {
  std::size_t begin;
  std::size_t count;
};

Part part_of(std::size_t worker, std::size_t workers, std::size_t count) {
  const std::size_t lines = count / line_doubles;
  const std::size_t begin = lines * worker / workers;
  const std::size_t end = lines * (worker + 1) / workers;
  return {begin * line_doubles, (end - begin) * line_doubles};
}

std::uint64_t array_bytes_of(const MemoryProbeOptions& options) {
  if (options.array_bytes) return *options.array_bytes;
  ReadRequest request;
  request.sources = cache_sources();
  const auto caches = last_cache_bytes(read_files(request));
  return caches ? *caches * stream_times_cache : stream_array_bytes_usual;
}

std::string mib_text(std::uint64_t bytes) {
  return std::to_string(bytes >> 20) + " MiB";
}

Status fits_memory(std::uint64_t bytes) {
  const auto available = read_memory("MemAvailable");
  if (!available) return Error{"/proc/meminfo does not say what memory is available"};
  const double most = static_cast<double>(*available) * stream_memory_share;
  if (static_cast<double>(bytes) <= most) return Done{};
  return Error{"three arrays of four times the caches need " + mib_text(bytes) + ", and half of " +
               mib_text(static_cast<std::uint64_t>(*available)) + " available may be used"};
}

}  // namespace

Result<double> triad_mb_per_s(const MemoryProbeOptions& options) {
  const std::size_t workers = options.processors.size();
  const std::size_t least = workers * line_doubles;
  const std::size_t count = std::max<std::size_t>(
      array_bytes_of(options) / sizeof(double) / line_doubles * line_doubles, least);
  if (const Status fits = fits_memory(3 * count * sizeof(double)); !fits) return fits.error();
  const FirstTouchArray a(count);
  const FirstTouchArray b(count);
  const FirstTouchArray c(count);
  if (a.data() == nullptr || b.data() == nullptr || c.data() == nullptr) {
    return Error{"the system gives no " + mib_text(3 * count * sizeof(double)) + " of memory"};
  }
  TimedWork work;
  work.prepare = [&](std::size_t worker) {
    const Part part = part_of(worker, workers, count);
    std::fill_n(a.data() + part.begin, part.count, 0.0);
    std::fill_n(b.data() + part.begin, part.count, b_value);
    std::fill_n(c.data() + part.begin, part.count, c_value);
  };
  work.pass = [&](std::size_t worker) {
    const Part part = part_of(worker, workers, count);
    triad(a.data() + part.begin, b.data() + part.begin, c.data() + part.begin, part.count);
  };
  const auto seconds = time_passes(options.processors, work, {options.time});
  if (!seconds) return seconds.error();
  const auto is_right = [](double value) { return value == b_value + scale * c_value; };
  if (!std::all_of(a.data(), a.data() + count, is_right)) {
    return Error{"the memory does not hold the sums that were written to it"};
  }
  const double best = *std::min_element(seconds->begin(), seconds->end());
  return 3.0 * sizeof(double) * static_cast<double>(count) / best / 1e6;
}

}  // namespace muster
