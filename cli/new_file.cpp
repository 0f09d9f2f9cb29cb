#include "cli/new_file.h"

#include <fcntl.h>

#include <cerrno>
#include <cstring>

#include "cli/terminal.h"
#include "launcher/os/fd.h"
#include "scheduler/model/exit_code.h"

namespace muster {

int write_new_file(const std::string& path, std::string_view text, const CommonOptions& common) {
  constexpr int exists = 2;
  const Fd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
  if (!file && errno == EEXIST) {
    complain(path + " exists; choose another name, nothing is overwritten", common);
    return exists;
  }
  if (file && write_all(file.get(), text)) return 0;
  complain("cannot write " + path + ": " + std::strerror(errno), common);
  return static_cast<int>(ExitCode::internal);
}

}  // namespace muster
