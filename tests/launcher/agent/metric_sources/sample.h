// Files that real programs wrote: samples/README.md.
#pragma once

#include <cmath>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "launcher/agent/metric_sources/follow.h"
#include "tests/catch.h"
#include "tests/health/fake_host.h"

namespace muster {

inline std::string sample(const std::string& name) {
  std::ifstream file(std::string(MUSTER_METRIC_SAMPLES) + "/" + name, std::ios::binary);
  REQUIRE(file);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

inline constexpr const char* event_file_name = "events.out.tfevents.1795806027.vm.5823.0";

inline std::string event_sample() {
  return sample(std::string("tensorboard/") + event_file_name);
}

inline void put_bytes(const std::string& path, std::string_view bytes) {
  std::filesystem::create_directories(std::filesystem::path(path).parent_path());
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << bytes;
}

// "Loss/train@1=3", "lr@1=-": what a point says.
inline std::vector<std::string> words_of(const std::vector<MetricPoint>& points) {
  std::vector<std::string> words;
  for (const MetricPoint& point : points) {
    std::ostringstream word;
    word << point.tag << "@" << (point.step ? std::to_string(*point.step) : "") << "=";
    if (std::isfinite(point.value))
      word << point.value;
    else
      word << "-";
    words.push_back(word.str());
  }
  return words;
}

inline SourceFile file_at(const std::string& path) {
  SourceFile file{path};
  std::error_code absent;
  const auto bytes = std::filesystem::file_size(path, absent);
  if (!absent) file.bytes = static_cast<std::int64_t>(bytes);
  return file;
}

// What one source finds in a file that has come to its end.
inline MetricLook read_all(ReadSource& read, const std::string& path) {
  MetricLook look;
  SourcePlace place;
  do {
    look.is_cut = false;
    read(file_at(path), place, look);
  } while (look.is_cut);
  return look;
}

}  // namespace muster
