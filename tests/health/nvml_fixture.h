// The fake management library with the answers of a healthy node, and more lines that change them.
#pragma once

#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

#include "health/nvml/library.h"
#include "health/nvml/reader.h"

namespace muster {

// The build says where the library is; the environment may say otherwise.
inline std::string fake_nvml_path(bool is_old = false) {
  const char* named = std::getenv(is_old ? "MUSTER_FAKE_NVML_OLD_LIB" : "MUSTER_FAKE_NVML_LIB");
  if (named != nullptr) return named;
#ifdef MUSTER_FAKE_NVML_LIB
  return is_old ? MUSTER_FAKE_NVML_OLD_LIB : MUSTER_FAKE_NVML_LIB;
#else
  return "no fake library was built";
#endif
}

inline std::string health_data(const std::string& name) {
  std::ifstream file(std::string(MUSTER_SOURCE_DIR) + "/tests/health/data/" + name);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

class FakeNvml {
 public:
  explicit FakeNvml(std::string script) : script_(std::move(script)) {
    const int fd = ::mkstemp(path_);
    if (fd >= 0) ::close(fd);
    ::setenv("MUSTER_FAKE_NVML", path_, 1);
    write();
  }
  FakeNvml(const FakeNvml&) = delete;
  FakeNvml& operator=(const FakeNvml&) = delete;
  ~FakeNvml() {
    ::unlink(path_);
    ::unsetenv("MUSTER_FAKE_NVML");
  }

  FakeNvml& add(const std::string& lines) {
    script_ += lines + "\n";
    write();
    return *this;
  }
  GpuReadings read(const GpuReadingScope& scope = {}, bool is_old = false) const {
    return read_gpus_of_library(fake_nvml_path(is_old), scope);
  }

 private:
  void write() const { std::ofstream(path_) << script_; }

  char path_[32] = "/tmp/muster-fake-nvml.XXXXXX";
  std::string script_;
};

}  // namespace muster
