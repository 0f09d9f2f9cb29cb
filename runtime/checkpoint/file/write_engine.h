// How the pieces of a large file reach the disk, several of them at once.
//
//   buffered         a thread, through the page cache; each 64 MiB the system is asked to write
//   what
//                    it holds, and to forget what is written
//   direct_threads   O_DIRECT, eight threads
//   direct_ring      O_DIRECT, eight pieces in flight by io_uring
//
// The file is there already and has its size reserved. Pieces may come in any order; their memory
// stays as it is until drain() has returned. Memory or lengths that O_DIRECT cannot take go through
// buffers of the engine's own, and a last block that was padded is cut off by whoever opened the
// file. Nothing here makes data durable: that is fdatasync, by the caller. An engine is used by one
// thread.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "runtime/checkpoint/file/checked.h"

namespace muster {

enum class WriteWay { buffered, direct_threads, direct_ring };

const char* write_way_name(WriteWay way);  // "buffered", "threads", "io_uring"

// What O_DIRECT asks of offsets, lengths and addresses.
inline constexpr std::uint64_t direct_alignment_bytes = 4096;

class WriteEngine {
 public:
  virtual ~WriteEngine() = default;  // waits for what is in flight

  // Takes a piece over. Only the last of the file may have a length that is no multiple of the
  // alignment, and all offsets are multiples of it.
  virtual void put(std::uint64_t offset, std::span<const char> piece) = 0;
  // Lets things move on without waiting; to be called now and then between put() and drain().
  virtual void tend() {}
  // Waits until all is written; the first fault.
  virtual Checked<NoValue> drain() = 0;
};

// For the file at `path`. A fault when this way cannot be used here.
Checked<std::unique_ptr<WriteEngine>> open_write_engine(WriteWay way, const std::string& path);

// The two kinds, for open_write_engine.
std::unique_ptr<WriteEngine> make_threaded_writer(int fd, const std::string& path, bool direct);
Checked<std::unique_ptr<WriteEngine>> make_ring_writer(int fd, const std::string& path);

}  // namespace muster
