#include "health/benchmark/tools/tools.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <system_error>

namespace muster {

namespace {

using Clock = std::chrono::steady_clock;
using Json = nlohmann::json;

constexpr BenchmarkTool fio{"fio", "fio"};
constexpr std::array<std::string_view, 2> disk_metrics{"fio_write_mb_per_s", "fio_read_mb_per_s"};
// Of the free space: others may write at the same time.
constexpr double free_share = 0.05;
constexpr std::uint64_t block_bytes = 4ull << 20;
// Less tells of the disk's own cache only.
constexpr std::uint64_t least_bytes = 32ull << 20;
// To begin, and to flush what was written until its time was over.
constexpr std::chrono::seconds fio_margin{15};

std::string system_words() {
  return std::generic_category().message(errno);
}

// Where the file system has no files without a name, one that loses it at once.
int open_nameless(const std::string& directory) {
  const int fd = ::open(directory.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL)) return fd;
  std::string path = directory + "/.muster-disk-XXXXXX";
  const int named = ::mkostemp(path.data(), O_CLOEXEC);
  if (named >= 0) ::unlink(path.c_str());
  return named;
}

class DiskFile {
 public:
  explicit DiskFile(const std::string& directory) : fd_(open_nameless(directory)) {}
  ~DiskFile() {
    if (fd_ >= 0) ::close(fd_);
  }
  DiskFile(const DiskFile&) = delete;

  // Empty, or why it cannot tell of a disk.
  std::string prepare(const DiskProbeOptions& options) {
    const std::string& directory = options.directory;
    if (fd_ < 0) return "cannot create a file in " + directory + ": " + system_words();
    struct statfs found {};
    if (::fstatfs(fd_, &found) != 0) return directory + ": " + system_words();
    if (found.f_type == TMPFS_MAGIC || found.f_type == RAMFS_MAGIC)
      return directory + " is in memory, not on a disk";
    bytes_ = disk_probe_bytes(options.bytes, static_cast<std::uint64_t>(found.f_bavail) *
                                                 static_cast<std::uint64_t>(found.f_bsize));
    if (bytes_ < std::min(options.bytes, least_bytes)) {
      return "a twentieth of the free space of " + directory + " is " +
             std::to_string(bytes_ >> 20) + " MiB: too little";
    }
    // fio would replace a file that is smaller than what it is to write.
    const auto size = static_cast<off_t>(bytes_);
    const bool has_size = ::fallocate(fd_, 0, 0, size) == 0 || ::ftruncate(fd_, size) == 0;
    return has_size ? "" : directory + ": " + system_words();
  }

  std::uint64_t bytes() const { return bytes_; }
  std::string path() const {
    return "/proc/" + std::to_string(::getpid()) + "/fd/" + std::to_string(fd_);
  }
  // Past the page cache, where the file system lets it.
  bool is_direct() const { return ::fcntl(fd_, F_SETFL, O_DIRECT) == 0; }

 private:
  int fd_;
  std::uint64_t bytes_ = 0;
};

// A sample of the way's metric, and how much it moved.
std::uint64_t run_fio(const FioCall& call, std::vector<PerformanceSample>& samples) {
  const std::string_view metric = disk_metrics[call.way == DiskWay::write ? 0 : 1];
  const ToolRun run = ToolProcess(fio_argv(call)).wait(Clock::now() + call.time + fio_margin);
  if (run.exit_code != 0) {
    samples.push_back(no_number(metric, fio, run));
    return 0;
  }
  const auto figures = read_fio(run.output, call.way);
  if (!figures) {
    samples.push_back(no_number(metric, figures.error().message));
    return 0;
  }
  samples.push_back(number_of(metric, figures->mb_per_s));
  return figures->bytes;
}

}  // namespace

std::vector<std::string> fio_argv(const FioCall& call) {
  const std::string way = call.way == DiskWay::write ? "write" : "read";
  std::vector<std::string> argv{"fio",
                                "--output-format=json",
                                "--name=" + way,
                                "--rw=" + way,
                                "--filename=" + call.file,
                                "--size=" + std::to_string(call.bytes),
                                "--bs=1m",
                                "--ioengine=libaio",
                                "--iodepth=32",
                                "--thread",  // else a process that outlives it when it is killed
                                "--runtime=" + std::to_string(call.time.count()),
                                "--refill_buffers",  // no layer stores less than is written
                                std::string("--direct=") + (call.is_direct ? "1" : "0")};
  if (call.way == DiskWay::write) argv.emplace_back("--end_fsync=1");
  return argv;
}

Result<FioFigures> read_fio(std::string_view text, DiskWay way) {
  // Warnings stand before the report.
  text.remove_prefix(std::min(text.find('{'), text.size()));
  const Json report = Json::parse(text, nullptr, false);
  try {
    const Json& jobs = report.at("jobs");
    if (jobs.size() != 1) return Error{"the report of fio has not one job"};
    const int code = jobs.at(0).at("error").get<int>();
    if (code != 0) return Error{"fio: " + std::generic_category().message(code)};
    const Json& side = jobs.at(0).at(way == DiskWay::write ? "write" : "read");
    const auto bytes = side.at("io_bytes").get<std::int64_t>();
    const auto bytes_per_s = side.at("bw_bytes").get<std::int64_t>();
    if (bytes <= 0 || bytes_per_s <= 0) return Error{"fio moved no data"};
    return FioFigures{static_cast<double>(bytes_per_s) / 1e6, static_cast<std::uint64_t>(bytes)};
  } catch (const Json::exception&) {
    return Error{"the report of fio cannot be read"};
  }
}

std::uint64_t disk_probe_bytes(std::uint64_t wanted, std::uint64_t free_bytes) {
  const auto most = static_cast<std::uint64_t>(static_cast<double>(free_bytes) * free_share);
  return std::min(wanted, most) / block_bytes * block_bytes;
}

std::vector<PerformanceSample> disk_samples(const DiskProbeOptions& options) {
  DiskFile file(options.directory);
  const std::string why = file.prepare(options);
  if (!why.empty()) return no_numbers(disk_metrics, why);
  std::vector<PerformanceSample> samples;
  FioCall call{DiskWay::write, file.path(), file.bytes(), options.time / 2, file.is_direct()};
  call.bytes = run_fio(call, samples);  // there may have been no time for all of it
  call.way = DiskWay::read;
  if (call.bytes > 0) {
    run_fio(call, samples);
  } else {
    samples.push_back(samples.front());
    samples.back().metric = disk_metrics[1];
  }
  return samples;
}

}  // namespace muster
