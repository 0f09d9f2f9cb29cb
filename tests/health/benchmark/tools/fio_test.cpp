#include "health/benchmark/tools/tools.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "tests/health/benchmark/tools/tool_output.h"

using namespace muster;
using std::chrono::seconds;

namespace {

constexpr std::uint64_t mib = 1 << 20;
// Of fio 3.33.
const std::string write_report = "fio-3.33-write.json";
const std::string read_report = "fio-3.33-read.json";

// A directory on the disk that holds the build.
class DiskFolder {
 public:
  DiskFolder() : path_(std::filesystem::current_path() / name()) {
    std::filesystem::create_directory(path_);
  }
  ~DiskFolder() { std::filesystem::remove_all(path_); }
  std::string path() const { return path_.string(); }
  bool is_empty() const { return std::filesystem::is_empty(path_); }

 private:
  static std::string name() { return "disk-" + std::to_string(::getpid()); }
  std::filesystem::path path_;
};

std::string why_none(const std::string& directory) {
  const auto samples = disk_samples({directory, 32 * mib, seconds(2)});
  REQUIRE(samples.size() == 2);
  for (const PerformanceSample& one : samples) CHECK_FALSE(one.value);
  CHECK(samples[0].error == samples[1].error);
  return samples[0].error;
}

}  // namespace

TEST_CASE("fio writes a file, flushes it, and reads what was written") {
  using Words = std::vector<std::string>;
  FioCall call{DiskWay::write, "/proc/4711/fd/3", 64 * mib, seconds(10), true};
  const Words written = fio_argv(call);
  CHECK(Words(written.begin(), written.begin() + 6) ==
        Words{"fio", "--output-format=json", "--name=write", "--rw=write",
              "--filename=/proc/4711/fd/3", "--size=67108864"});
  CHECK(written.back() == "--end_fsync=1");
  // Killed, it takes its job with it.
  CHECK(std::ranges::find(written, "--thread") != written.end());
  call.way = DiskWay::read;
  call.is_direct = false;
  CHECK(fio_argv(call).back() == "--direct=0");
}

TEST_CASE("the rate and the amount of fio's one job are read") {
  const auto written = read_fio(tool_output(write_report), DiskWay::write);
  REQUIRE(written);
  CHECK(written->mb_per_s == Approx(932.067555));
  CHECK(written->bytes == 32 * mib);
  const auto read = read_fio("fio: a warning\n" + tool_output(read_report), DiskWay::read);
  REQUIRE(read);
  CHECK(read->mb_per_s == Approx(338.933656));
  CHECK_FALSE(read_fio(tool_output(read_report), DiskWay::write));
}

TEST_CASE("a job that failed and a report that is none say so") {
  const auto failed =
      read_fio(with(tool_output(write_report), "\"error\": 0", "\"error\": 28"), DiskWay::write);
  REQUIRE_FALSE(failed);
  CHECK(failed.error().message == "fio: No space left on device");
  for (const std::string bad :
       {"", "{}", "[]", R"({"jobs": []})", R"({"jobs": [{"error": 0}]})",
        R"({"jobs": [{"error": 0, "write": {"io_bytes": 1, "bw_bytes": -1}}]})",
        R"({"jobs": [{"error": 0, "write": {"io_bytes": "1", "bw_bytes": 1}}]})"}) {
    INFO(bad);
    CHECK_FALSE(read_fio(bad, DiskWay::write));
  }
}

TEST_CASE("no report makes the reader of fio fail") {
  std::mt19937 random(20261130);
  const std::string whole = tool_output(write_report);
  for (int round = 0; round < 2000; ++round) {
    const auto figures = read_fio(garbled(whole, random), DiskWay::write);
    if (figures) REQUIRE(figures->mb_per_s > 0);
  }
}

TEST_CASE("a disk is written and read, and nothing stays behind") {
  const DiskFolder folder;
  const auto samples = disk_samples({folder.path(), 64 * mib, seconds(4)});
  CHECK(folder.is_empty());
  REQUIRE(samples.size() == 2);
  CHECK(samples[0].metric == "fio_write_mb_per_s");
  CHECK(samples[1].metric == "fio_read_mb_per_s");
  for (const PerformanceSample& one : samples) {
    INFO(one.error);
    // Tests may run in memory, and without fio.
    const bool is_none = one.is_absent || one.error.find("is in memory") != std::string::npos;
    CHECK((is_none || one.value.value_or(0) > 0.1));
  }
}

TEST_CASE("a file never takes more than its part of the free space, in whole blocks") {
  CHECK(disk_probe_bytes(100 * mib, 100'000 * mib) == 100 * mib);
  CHECK(disk_probe_bytes(102 * mib, 100'000 * mib) == 100 * mib);
  CHECK(disk_probe_bytes(1000 * mib, 2000 * mib) == 100 * mib);
  CHECK(disk_probe_bytes(1000 * mib, 40 * mib) == 0);
  CHECK(disk_probe_bytes(1000 * mib, 0) == 0);
}

TEST_CASE("a directory that takes no file, or lies in memory, is told") {
  CHECK_THAT(why_none("/no/such/directory"), ContainsSubstring("/no/such/directory"));
  CHECK_FALSE(why_none("/proc").empty());
  if (std::filesystem::is_directory("/dev/shm")) CHECK_FALSE(why_none("/dev/shm").empty());
}
