#include "runtime/checkpoint/file/write_engine.h"

#include <fcntl.h>

#include <cerrno>
#include <cstring>

namespace muster {

const char* write_way_name(WriteWay way) {
  switch (way) {
    case WriteWay::buffered:
      return "buffered";
    case WriteWay::direct_threads:
      return "threads";
    case WriteWay::direct_ring:
      return "io_uring";
  }
  return "";
}

Checked<std::unique_ptr<WriteEngine>> open_write_engine(WriteWay way, const std::string& path) {
  const bool direct = way != WriteWay::buffered;
  const int fd = ::open(path.c_str(), O_WRONLY | O_CLOEXEC | (direct ? O_DIRECT : 0));
  if (fd < 0) {
    return CheckpointFault{path + ": open for " + (direct ? "direct " : "") +
                           "writing failed: " + std::strerror(errno)};
  }
  if (way == WriteWay::direct_ring) return make_ring_writer(fd, path);
  return make_threaded_writer(fd, path, direct);
}

}  // namespace muster
