// What a tool printed, as it lies in tests/health/data, and the same after an accident.
#pragma once

#include <fstream>
#include <random>
#include <sstream>
#include <string>

#include "tests/catch.h"

namespace muster {

inline std::string tool_output(const std::string& name) {
  std::ifstream file(std::string(MUSTER_SOURCE_DIR) + "/tests/health/data/" + name);
  std::stringstream text;
  text << file.rdbuf();
  REQUIRE_FALSE(text.str().empty());
  return text.str();
}

// Bytes come and go, and it may end early.
inline std::string garbled(std::string text, std::mt19937& random) {
  if (random() % 3 == 0) text.resize(random() % text.size() + 1);
  for (int change = static_cast<int>(random() % 5); change >= 0; --change) {
    const std::size_t at = random() % (text.size() + 1);
    if (random() % 2 == 0) {
      text.insert(at, 1, static_cast<char>(random() % 256));
    } else {
      text.erase(at, random() % 40);
    }
  }
  return text;
}

inline std::string with(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  REQUIRE(at != text.npos);
  return text.replace(at, from.size(), to);
}

}  // namespace muster
