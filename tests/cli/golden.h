// A text against a file, named from the root of the sources. MUSTER_UPDATE_GOLDEN=1 writes the file
// anew; read the difference.
#pragma once

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

#include "tests/catch.h"

namespace muster {

inline void check_golden(const std::string& text, const std::string& file) {
  const std::string path = std::string(MUSTER_SOURCE_DIR) + "/" + file;
  if (std::getenv("MUSTER_UPDATE_GOLDEN") != nullptr) std::ofstream(path) << text;
  std::ostringstream wanted;
  wanted << std::ifstream(path).rdbuf();
  CHECK(text == wanted.str());
}

}  // namespace muster
