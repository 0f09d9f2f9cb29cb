// What a reader of a node and its helper say to each other over their socket, as bytes. Pure. Both
// are of one build, so there are no versions; but the helper may be ill, so that its reader takes
// every byte as unknown: no frame is longer than a limit, no length is believed, no rest is left.
//
// A frame: length (u32, of what follows), kind (u8), its fields in order. Numbers are
// little-endian; a text is its length (u32) and its bytes; a list is its length (u32) and its
// texts. The kind is the place of the alternative in its variant, from 1 and from 16 on.
//
//   reader to helper    1 read    root, library, sources, skip, scope (u8: 1 gpus, 2 processes,
//                                 4 inforom)
//                       2 watch   library, slice (u32, ms)
//   helper to reader   16 begins  path
//                      17 file    path, error, missing (u8), text
//                      18 files over
//                      19 calling call
//                      20 gpu     key, code (u32), value
//                      21 read over
//                      22 events  error; empty: the driver tells them
//                      23 event   gpu + 1 or 0 (u32), type (u64), data (u64)
//                      24 event call
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "health/model/gpu_readings.h"
#include "health/model/source_files.h"
#include "health/nvml/library.h"
#include "health/nvml/reader.h"
#include "scheduler/text/fields.h"

namespace muster {

// What is asked of a node's sources at one time, and what they said. Plain data.

struct NodeReadRequest {
  std::string root = "/";               // all files are below it
  std::vector<std::string> sources;     // as read_files takes them; what may hang last
  std::optional<GpuReadingScope> gpus;  // nothing: the driver's library is not asked
  std::string nvml_library;             // empty: what the environment names, else the usual one
};

struct NodeReadings {
  SourceFiles files;
  // Nothing: not asked. Incomplete: the driver did not answer in calling(), or the helper died in
  // it, as stopped() says.
  std::optional<GpuReadings> gpus;
  std::chrono::milliseconds files_took{0};
  std::chrono::milliseconds gpus_took{0};
};

// Whether the helper that asks the driver is alive.
struct HelperFacts {
  // Since it was killed without the kernel giving it up, which a hanging driver keeps it from.
  std::optional<std::chrono::milliseconds> unreaped;
  int restarts = 0;  // in the latest hour
};

struct ReadCommand {
  NodeReadRequest request;
  std::set<std::string, std::less<>> skip;

  MUSTER_FIELDS(request.root, request.nvml_library, request.sources, skip, request.gpus)
};
// From now on, between reads, the driver's events are told. While it waits for one the helper hears
// nothing for a slice at most.
struct WatchCommand {
  std::string library;
  std::chrono::milliseconds slice{100};

  MUSTER_FIELDS(library, slice)
};
using HelperCommand = std::variant<ReadCommand, WatchCommand>;

struct FileBegins {
  std::string path;

  MUSTER_FIELDS(path)
};
struct FileIsRead {
  std::string path;
  FileReading reading;

  MUSTER_FIELDS(path, reading.error, reading.is_missing, reading.text)
};
struct FilesOver {};
struct GpuCallBegins {
  std::string call;

  MUSTER_FIELDS(call)
};
struct GpuIsRead {
  std::string key;
  GpuReading reading;

  MUSTER_FIELDS(key, reading.rc, reading.value)
};
struct ReadOver {};
// After each attempt to be told them; the call for them is over.
struct EventsKnown {
  std::string error;

  MUSTER_FIELDS(error)
};
struct EventIsTold {
  GpuEvent event;

  MUSTER_FIELDS(event.gpu, event.type, event.data)
};
// A call for the sake of events, between reads.
struct EventCallBegins {
  std::string call;

  MUSTER_FIELDS(call)
};
using HelperMessage = std::variant<FileBegins, FileIsRead, FilesOver, GpuCallBegins, GpuIsRead,
                                   ReadOver, EventsKnown, EventIsTold, EventCallBegins>;

// The only call that is made again and again: it is announced once, and may last.
inline constexpr const char* event_wait_call = "nvmlEventSetWait";

// A file's text and path fit with room to spare; a command names every file that was read.
inline constexpr std::size_t message_bytes_max = 1u << 20;
inline constexpr std::size_t command_bytes_max = 64u << 20;

std::string encode(const HelperCommand& command);
std::string encode(const HelperMessage& message);
// Of a frame without its length; nothing: it is none of these.
std::optional<HelperCommand> decode_command(std::string_view frame);
std::optional<HelperMessage> decode_message(std::string_view frame);

// Cuts a stream into frames. Keeps at most one unfinished frame and what was fed last.
class FrameCutter {
 public:
  explicit FrameCutter(std::size_t frame_bytes_max) : frame_bytes_max_(frame_bytes_max) {}

  void feed(std::string_view bytes);
  // Valid until the next feed. Nothing: no whole frame is there, or the stream is broken.
  std::optional<std::string_view> next();
  // A frame was empty or too long: nothing after it can be understood.
  bool is_broken() const { return is_broken_; }

 private:
  std::size_t frame_bytes_max_;
  std::string bytes_;
  std::size_t taken_ = 0;
  bool is_broken_ = false;
};

}  // namespace muster
