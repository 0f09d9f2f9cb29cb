#include "launcher/sandbox/disk.h"

#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "launcher/os/fd.h"

namespace muster {

Status mount_sized(const std::filesystem::path& at, int size_mib) {
  const std::string options = "mode=700,size=" + std::to_string(size_mib) + "m";
  if (::mount("tmpfs", at.c_str(), "tmpfs", MS_NOSUID | MS_NODEV, options.c_str()) == 0) {
    return Done{};
  }
  return Error{"cannot mount memory on " + at.string() + ": " + std::strerror(errno)};
}

void unmount(const std::filesystem::path& at) {
  (void)::umount2(at.c_str(), MNT_DETACH | UMOUNT_NOFOLLOW);
}

bool is_mounted(const std::filesystem::path& at) {
  struct stat here {
  }, above{};
  return ::stat(at.c_str(), &here) == 0 && ::stat(at.parent_path().c_str(), &above) == 0 &&
         here.st_dev != above.st_dev;
}

Status fill_up(const std::filesystem::path& file) {
  const Fd filled(
      ::open(file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600));
  const std::string piece(std::size_t{1} << 16, 'x');
  // Whole pieces, then bytes: the last page of the disk too.
  for (std::size_t size = piece.size(); size > 0; size /= 2) {
    while (filled.get() >= 0 && ::write(filled.get(), piece.data(), size) > 0) {
    }
  }
  if (errno == ENOSPC) return Done{};
  return Error{"cannot fill " + file.parent_path().string() + ": " + std::strerror(errno)};
}

}  // namespace muster
