#include "launcher/os/own_program.h"

#include <unistd.h>

#include <filesystem>
#include <system_error>

namespace muster {

namespace fs = std::filesystem;

std::string own_program() {
  std::error_code failed;
  const fs::path name = fs::read_symlink("/proc/self/exe", failed);
  if (!failed && fs::equivalent(name, "/proc/self/exe", failed) && !failed) return name.string();
  return "/proc/" + std::to_string(::getpid()) + "/exe";
}

}  // namespace muster
