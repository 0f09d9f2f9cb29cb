#include "cli/terminal/new_file.h"

#include <fcntl.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "cli/terminal/exit_status.h"
#include "cli/terminal/terminal.h"
#include "launcher/os/fd.h"
#include "scheduler/model/exit_code.h"

namespace muster {

int write_new_file(const std::string& path, std::string_view text, const CommonOptions& common) {
  const Fd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
  if (!file && errno == EEXIST) {
    complain(path + " exists; choose another name, nothing is overwritten", common);
    return usage_error;
  }
  if (!file && errno == ENOENT) {
    const std::string folder = std::filesystem::path(path).parent_path().string();
    complain("cannot write " + path + ": there is no folder " + folder +
                 "; make it first: mkdir -p " + folder,
             common);
    return usage_error;
  }
  if (file && write_all(file.get(), text)) return 0;
  complain("cannot write " + path + ": " + std::strerror(errno), common);
  return static_cast<int>(ExitCode::internal);
}

}  // namespace muster
