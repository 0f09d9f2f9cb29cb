#include <unistd.h>

#include <filesystem>

#include "health/benchmark/tools/fio.h"
#include "tests/catch.h"

using namespace muster;
using namespace std::chrono_literals;

namespace {

// A directory on the disk that holds the build.
class ProbeFolder {
 public:
  ProbeFolder() : path_(std::filesystem::current_path() / name()) {
    std::filesystem::create_directory(path_);
  }
  ~ProbeFolder() { std::filesystem::remove_all(path_); }
  std::string path() const { return path_.string(); }
  bool is_empty() const { return std::filesystem::is_empty(path_); }

 private:
  static std::string name() { return "disk-probe-" + std::to_string(::getpid()); }
  std::filesystem::path path_;
};

}  // namespace

TEST_CASE("a disk is written and read, and nothing stays behind") {
  const ProbeFolder folder;
  const auto rates = disk_rates({folder.path(), 24ull << 20, 4000ms});
  INFO((rates ? "" : rates.error().message));
  CHECK(folder.is_empty());
  if (!rates) {
    // Tests may run in memory.
    CHECK_THAT(rates.error().message, ContainsSubstring("lies in memory"));
    return;
  }
  CHECK(rates->write_mb_per_s > 0.1);
  CHECK(rates->read_mb_per_s > 0.1);
  CHECK(rates->read_mb_per_s < 1e6);
}

TEST_CASE("a run without time writes little, and still measures") {
  const ProbeFolder folder;
  const auto begun = std::chrono::steady_clock::now();
  const auto rates = disk_rates({folder.path(), 64ull << 30, 1ms});
  CHECK(folder.is_empty());
  CHECK((rates || !rates.error().message.empty()));
  CHECK(std::chrono::steady_clock::now() - begun < 60s);
}

TEST_CASE("a file never takes more than its part of the free space, in whole blocks") {
  constexpr std::uint64_t mib = 1 << 20;
  CHECK(disk_probe_bytes(100 * mib, 100'000 * mib) == 100 * mib);
  CHECK(disk_probe_bytes(102 * mib, 100'000 * mib) == 100 * mib);
  CHECK(disk_probe_bytes(1000 * mib, 2000 * mib) == 100 * mib);
  CHECK(disk_probe_bytes(1000 * mib, 40 * mib) == 0);
  CHECK(disk_probe_bytes(1000 * mib, 0) == 0);
}

TEST_CASE("a directory that takes no file is told") {
  const auto none = disk_rates({"/no/such/directory", 24ull << 20, 100ms});
  REQUIRE_FALSE(none);
  CHECK_THAT(none.error().message, ContainsSubstring("/no/such/directory"));
  CHECK_FALSE(disk_rates({"/proc", 24ull << 20, 100ms}));
}

TEST_CASE("a file in memory says nothing about a disk") {
  if (!std::filesystem::is_directory("/dev/shm")) return;
  const auto rates = disk_rates({"/dev/shm", 8ull << 20, 100ms});
  REQUIRE_FALSE(rates);
}
