#include "health/checks/host/facts.h"

#include <fcntl.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <limits>
#include <sstream>

#include "scheduler/text/text.h"

namespace muster {

namespace {

std::string read_text(const char* path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::string why_not_writable(const std::string& home) {
  // Many hosts may share the home, each with its own process numbers: a random name.
  std::string probe = home + "/.write-probe.XXXXXX";
  const int fd = ::mkostemp(probe.data(), O_CLOEXEC);
  if (fd < 0) return std::strerror(errno);
  const bool written = ::write(fd, "x", 1) == 1;
  const int error = errno;
  ::close(fd);
  ::unlink(probe.c_str());
  return written ? std::string() : std::strerror(error);
}

}  // namespace

std::optional<std::int64_t> parse_meminfo(std::string_view text, std::string_view key) {
  const std::string_view value = value_in_lines(text, key, ':').value_or("");
  const std::size_t digit = value.find_first_of("0123456789");
  if (digit == value.npos) return {};
  std::int64_t kib = 0;
  const auto [stop, error] =
      std::from_chars(value.data() + digit, value.data() + value.size(), kib);
  if (error != std::errc() || kib > std::numeric_limits<std::int64_t>::max() / 1024) return {};
  return kib * 1024;
}

std::optional<std::int64_t> read_memory(std::string_view key) {
  return parse_meminfo(read_text("/proc/meminfo"), key);
}

std::string read_host_name() {
  char name[256] = {};
  return ::gethostname(name, sizeof name - 1) == 0 ? name : "";
}

std::string read_boot_id() {
  return std::string(trimmed(read_text("/proc/sys/kernel/random/boot_id")));
}

StartGateFacts read_start_gate_facts(const std::string& home) {
  StartGateFacts facts;
  facts.host_name = read_host_name();
  facts.home = home;
  facts.home_error = why_not_writable(home);
  struct statvfs disk {};
  if (::statvfs(home.c_str(), &disk) == 0) {
    facts.free_disk_bytes =
        static_cast<std::int64_t>(disk.f_bavail) * static_cast<std::int64_t>(disk.f_frsize);
  }
  facts.memory_available_bytes = read_memory("MemAvailable");
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  facts.now_ms = std::chrono::duration_cast<std::chrono::milliseconds>(now).count();
  return facts;
}

}  // namespace muster
