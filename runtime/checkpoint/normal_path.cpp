#include "runtime/checkpoint/normal_path.h"

#include <filesystem>

namespace muster {

std::string normal_path(const std::string& path) {
  std::filesystem::path normal = std::filesystem::absolute(path).lexically_normal();
  if (!normal.has_filename()) normal = normal.parent_path();
  return normal.string();
}

}  // namespace muster
