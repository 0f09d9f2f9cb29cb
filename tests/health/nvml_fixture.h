// The fake management library with the answers of a healthy node, and more lines that change them.
#pragma once

#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <stdexcept>
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
    GpuReadings readings;
    const auto library = NvmlLibrary::load(fake_nvml_path(is_old));
    if (!library) throw std::runtime_error(library.error().message);
    read_gpus(*library, scope,
              {[&](const std::string& call) { readings.begin_call(call); },
               [&](const std::string& key, const GpuReading& one) { readings.add(key, one); }});
    readings.complete();
    return readings;
  }

 private:
  void write() const { std::ofstream(path_) << script_; }

  char path_[32] = "/tmp/muster-fake-nvml.XXXXXX";
  std::string script_;
};

}  // namespace muster
