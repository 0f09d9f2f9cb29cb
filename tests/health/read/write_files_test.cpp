
#include "health/read/files.h"
#include "tests/catch.h"
#include "tests/health/fake_host.h"

using namespace muster;

namespace {

SourceFiles read_below(const std::string& root, std::vector<std::string> sources) {
  ReadRequest request;
  request.root = root;
  request.sources = std::move(sources);
  return read_files(request);
}

std::map<std::string, std::string> as_texts(const SourceFiles& files) {
  std::map<std::string, std::string> texts;
  for (const auto& [path, reading] : files.all()) {
    texts[path] = reading.ok() ? "text " + reading.text
                               : (reading.is_missing ? "missing " : "error ") + reading.error;
  }
  return texts;
}

// What was read from `first` reads the same from a copy of it.
void check_copy(const std::string& root, const std::vector<std::string>& sources) {
  const SourceFiles first = read_below(root, sources);
  const FakeRoot copy;
  const auto written = write_files(first, copy.path());
  REQUIRE(written);
  CHECK(as_texts(read_below(copy.path(), sources)) == as_texts(first));
}

}  // namespace

TEST_CASE("a host that was read is written as a root that reads the same") {
  const FakeRoot root;
  root.write(healthy_host());
  check_copy(root.path(), {"/proc/meminfo", "/sys/class/net/*/operstate", "/sys/class/nvme/*/state",
                           "/sys/class/nvme/*/nothing", "/sys/class/infiniband/*/ports/*/state",
                           "adjtimex:", "rlimit:nofile", "statvfs:/tmp", "statvfs:/nowhere",
                           "/data", "/dev/shm", "stat:/dev/shm/nccl-*",
                           "/usr/lib/x86_64-linux-gnu/libcuda.so.1@", "/usr/lib64/libcuda.so.1@"});
}

TEST_CASE("names that only a call was made of, and what is missing below a listed name, stay so") {
  const FakeRoot root;
  root.write("/dev/infiniband/uverbs0", "");
  root.write("/dev/shm/nccl-7", "1234");
  root.write("/sys/class/infiniband/mlx5_0/node_guid", "1\n");
  root.write("/sys/class/infiniband/mlx5_1/ports/1/state", "4: ACTIVE\n");
  check_copy(root.path(),
             {"open:/dev/infiniband/uverbs*", "stat:/dev/shm/nccl-*",
              "/sys/class/infiniband/*/ports/*/state", "/sys/class/infiniband/*/ports/*/rate",
              "/sys/class/infiniband/*/device/physfn/vendor"});
}

TEST_CASE("a read that failed fails in the same words from the copy") {
  SourceFiles files;
  files.add("/sys/a/state", FileReading{{}, "Input/output error", false});
  files.add("/sys/b", FileReading{{}, "no answer within 5 s", false});
  files.add("/sys/b/c", FileReading{{}, "Permission denied", false});
  files.add("/sys/link@", FileReading{{}, "Permission denied", false});
  files.add("statvfs:/data", FileReading{{}, "Stale file handle", false});
  files.add("rlimit:nproc", FileReading{{}, "no such limit", true});
  const FakeRoot copy;
  REQUIRE(write_files(files, copy.path()));
  const auto again =
      as_texts(read_below(copy.path(), {"/sys/a/state", "/sys/b", "/sys/b/c", "/sys/link@",
                                        "statvfs:/data", "rlimit:nproc"}));
  CHECK(again == as_texts(files));
}

TEST_CASE("a directory whose listing failed has no names, and says why") {
  SourceFiles files;
  files.add("/sys/class/nvme", FileReading{{}, "no answer within 5 s", false});
  files.add("/sys/class/net/eth0/mtu", "1500\n");
  const FakeRoot copy;
  REQUIRE(write_files(files, copy.path()));
  const SourceFiles again = read_below(copy.path(), {"/sys/class/nvme/*/state"});
  CHECK(again.reading("/sys/class/nvme").error == "no answer within 5 s");
  CHECK(again.names_below("/sys/class/nvme").empty());
}

TEST_CASE("texts of any bytes survive, and a link leads nothing out of the root") {
  SourceFiles files;
  files.add("/sys/config", std::string("\xde\x10\0\xff\n ", 6));
  files.add("/sys/empty", "");
  files.add("/a@", "/etc");
  files.add("/a/passwd", "not the real one");
  const FakeRoot copy;
  REQUIRE(write_files(files, copy.path()));
  const auto again =
      as_texts(read_below(copy.path(), {"/sys/config", "/sys/empty", "/a@", "/a/passwd"}));
  CHECK(again == as_texts(files));
}

TEST_CASE("what cannot be written is an error that names it") {
  SourceFiles files;
  files.add("/proc/meminfo", "MemTotal: 1 kB\n");
  const auto written = write_files(files, "/proc/no/such/root");
  REQUIRE_FALSE(written);
  CHECK_THAT(written.error().message, ContainsSubstring("cannot write /proc/no/such/root/proc"));
}
