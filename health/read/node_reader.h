// Reads a node's sources in one helper process that can be killed: a driver that hangs takes only
// the helper with it. The helper is a program that calls serve_node_reads(); it lives between
// reads, and passes on the driver's events. What a source says before another one hangs is kept: a
// hung one is killed at its deadline, and the rest is read by the next helper. One that the kernel
// does not give up is abandoned: nothing more is read until it is gone, so that there is at most
// one. One thread; never blocks but in read_node, and for `reaping` at most in pause() and when it
// is destroyed.
//
//   idle ── begin ──► reading ── all said ──► idle
//                       │ deadline: SIGKILL, reaped: a new helper reads the rest
//                       └ not reaped ──► abandoned ── reaped ──► idle
#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "health/nvml/event_source.h"
#include "health/read/liveness.h"
#include "health/read/reader_protocol.h"
#include "scheduler/model/result.h"

namespace muster {

using SteadyTime = std::chrono::steady_clock::time_point;

struct NodeReaderLimits {
  std::chrono::milliseconds source{5'000};     // silence of one file
  std::chrono::milliseconds gpu_call{10'000};  // of one call of the driver's library
  std::chrono::milliseconds run{60'000};       // of a whole read
  std::chrono::milliseconds reaping{500};      // after a kill, before the helper is abandoned
};

class NodeReader {
 public:
  // `helper`: argv of the helper, its program as a path; it gets its socket as descriptor 3 and
  // the memory in which it answers as 4.
  // `wants_events`: the driver's events are awaited between reads, from the first advance() on.
  struct Options {
    std::vector<std::string> helper;
    NodeReaderLimits limits;
    bool wants_events = false;
    std::string nvml_library;  // for the events
    // While it waits for an event, a helper hears of a read after so long at the latest.
    std::chrono::milliseconds event_slice{100};
    // waitpid, in tests one that never reaps. Somebody else may reap the helper too.
    std::function<pid_t(pid_t, int*, int)> wait;
  };
  explicit NodeReader(Options options);
  ~NodeReader();

  // Must be idle. What cannot be read is said in the readings; nothing fails here.
  void begin(NodeReadRequest request);
  // No read is under way; what the last one said may wait to be taken.
  bool is_idle() const;
  // To be polled for reading; it changes with the helper: ask after each call. -1: none.
  int descriptor() const;
  // When advance() is to be called at the latest; nothing: only when the descriptor is readable.
  std::optional<SteadyTime> wake_at() const;
  // Takes what the helper said; kills what is late. Call on either.
  void advance();
  // Ends the helper and the read that is under way; until resume() nothing is read and no helper is
  // started. One that does not end is remembered.
  void pause();
  void resume();
  // From now on. Each slice costs a call of the driver.
  void set_event_slice(std::chrono::milliseconds slice);
  // Once, when a read is over.
  std::optional<NodeReadings> take();
  std::vector<GpuEvent> take_events();
  // For helper checks; `stuck_in`: the path or call that the abandoned helper hangs in, else empty.
  HelperFacts facts() const;
  const std::string& stuck_in() const;
  bool has_events() const;  // the driver tells events now
  pid_t helper() const;     // that is to be reaped some day; 0: none

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

// Waits for it; for programs that have nothing else to do.
NodeReadings read_node(NodeReader& reader, NodeReadRequest request);

// The helper: answers requests on the socket, in the shared memory behind the descriptor above it,
// until the socket is closed. The exit code of the process.
int serve_node_reads(int socket);

}  // namespace muster
