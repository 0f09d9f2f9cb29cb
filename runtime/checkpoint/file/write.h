// One large file on its way to the disk, and the choice of the way.
//
// Which way is the quicker one depends on the device, the file system and the system's memory, so
// it is measured: the first large file of a run writes some of its own bytes each way. The caller
// keeps the choice from file to file. Small files go through the page cache. Used by one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/checkpoint/file/checked.h"
#include "runtime/checkpoint/file/durable_file.h"

namespace muster {

// How the pieces of a large file reach the disk, several of them at once.
//
//   buffered         a thread, through the page cache; each 64 MiB the system is asked to write
//                    what it holds, and to forget what is written
//   direct_threads   O_DIRECT, eight threads
//   direct_ring      O_DIRECT, eight pieces in flight by io_uring
//
// The file is there already and has its size reserved. Pieces may come in any order; their memory
// stays as it is until drain() has returned. Memory or lengths that O_DIRECT cannot take go through
// buffers of the engine's own, and a last block that was padded is cut off by whoever opened the
// file. Nothing here makes data durable: that is fdatasync, by the caller. An engine is used by one
// thread.

enum class WriteWay { buffered, direct_threads, direct_ring };

const char* write_way_name(WriteWay way);  // "buffered", "threads", "io_uring"

struct FilePiece {
  std::uint64_t offset = 0;
  std::span<const char> bytes;
};

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

// From this size on a file is worth the trial; smaller ones are buffered when nothing is chosen.
inline constexpr std::uint64_t write_trial_file_bytes = 256ull << 20;

struct WriteChoice {
  std::optional<WriteWay> way = {};  // none: nothing is known yet
  std::string reason = {};           // such as "buffered 1200 MB/s, io_uring 1900 MB/s"
  std::uint64_t trial_from_bytes = write_trial_file_bytes;
};

class FileWrite {
 public:
  // Creates or empties `path` and reserves `bytes` for it. `choice` outlives this.
  static Checked<FileWrite> begin(const std::string& path, std::uint64_t bytes,
                                  WriteChoice& choice);

  // Takes a piece over, as WriteEngine does; in rising order, without holes. Before a trial pieces
  // are only kept.
  void put(std::uint64_t offset, std::span<const char> piece);
  void tend() {
    if (engine_) engine_->tend();
  }
  // Decides the way if it has to be measured. Waits for the bytes of the trial.
  Checked<NoValue> choose_way();
  // All pieces are written, the file has its size and is durable and closed.
  Checked<NoValue> finish();
  // How this file is being written, and what is known about the ways.
  std::string description() const;

 private:
  FileWrite(CheckpointFile file, std::string path, std::uint64_t bytes, WriteChoice& choice);
  Checked<NoValue> open_engine(WriteWay way);
  Checked<NoValue> write_kept(WriteWay way, std::uint64_t end);

  CheckpointFile file_;
  std::string path_;
  std::uint64_t bytes_;
  WriteChoice* choice_;
  bool needs_trial_;
  WriteWay way_;
  std::vector<FilePiece> kept_;  // not yet given to an engine
  std::size_t begun_ = 0;        // of those kept
  // Ends first: what is in flight goes before the file.
  std::unique_ptr<WriteEngine> engine_;
};

// Saving gives way to computing, where no core is free: puts this thread ten steps of niceness
// behind the process's first one.
void step_back();

}  // namespace muster
