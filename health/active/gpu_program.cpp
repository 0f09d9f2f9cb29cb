#include "health/active/gpu_program.h"

#include <unistd.h>

#include <array>

namespace muster {

std::string gpu_program() {
  std::array<char, 4096> path{};
  const ssize_t size = ::readlink("/proc/self/exe", path.data(), path.size());
  const std::string here(path.data(), size > 0 ? static_cast<std::size_t>(size) : 0);
  const std::string beside = here.substr(0, here.rfind('/') + 1) + gpu_program_name;
  return ::access(beside.c_str(), X_OK) == 0 ? beside : gpu_program_name;
}

std::string no_gpu_program() {
  return std::string(gpu_program_name) + " is not built, or not installed here";
}

}  // namespace muster
