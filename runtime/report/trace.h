// What the training thread of one rank did when, span by span, for a trace.
//
// Spans lie within each other like the scopes they measure, and never cross. Memory is bounded:
// beyond the limit spans are counted and dropped. Times are of the steady clock of this host. One
// thread; while a trace is off, nothing reads the clock.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "scheduler/text/fields.h"

namespace muster {

enum class SpanKind : std::uint32_t {
  step,  // number: of the step
  data_wait,
  forward,
  layer_forward,  // number: of the layer
  head_forward,   // with the last norm and the loss
  backward,
  head_backward,
  layer_backward,
  embeddings_backward,
  reduce_wait,   // number: of the transfer in its step; bytes that come
  gather_wait,   // the same
  numbers_wait,  // losses and sums of squares
  optimizer,
  checkpoint,
};

struct TraceEntry {
  std::int64_t begin_ns = 0;
  std::int64_t end_ns = 0;
  SpanKind kind = SpanKind::step;
  std::uint32_t number = 0;
  std::uint64_t bytes = 0;
  MUSTER_FIELDS(begin_ns, end_ns, kind, number, bytes)
};

inline std::int64_t steady_ns() {
  using namespace std::chrono;
  return duration_cast<nanoseconds>(steady_clock::now().time_since_epoch()).count();
}

class Trace {
 public:
  explicit Trace(std::size_t limit) : limit_(limit) {}

  bool is_on() const { return is_on_; }
  void turn(bool on) { is_on_ = on; }
  void add(const TraceEntry& entry) {
    if (entries_.size() < limit_) {
      entries_.push_back(entry);
    } else {
      ++dropped_;
    }
  }
  const std::vector<TraceEntry>& entries() const { return entries_; }
  std::uint64_t dropped() const { return dropped_; }

 private:
  std::size_t limit_;
  bool is_on_ = false;
  std::vector<TraceEntry> entries_;
  std::uint64_t dropped_ = 0;
};

// A span from its construction to its end; nothing without a trace that is on.
class TraceSpan {
 public:
  TraceSpan(Trace* trace, SpanKind kind, std::uint64_t number = 0, std::uint64_t bytes = 0)
      : trace_(trace != nullptr && trace->is_on() ? trace : nullptr) {
    if (trace_ == nullptr) return;
    entry_ = {steady_ns(), 0, kind, static_cast<std::uint32_t>(number), bytes};
  }
  ~TraceSpan() {
    if (trace_ == nullptr) return;
    entry_.end_ns = steady_ns();
    trace_->add(entry_);
  }
  TraceSpan(const TraceSpan&) = delete;
  TraceSpan& operator=(const TraceSpan&) = delete;

 private:
  Trace* trace_;
  TraceEntry entry_;
};

// A Chrome trace: the spans of all ranks in one file, which Perfetto, chrome://tracing and the
// profiler plug-in of TensorBoard open.
//
// One JSON object: schemaVersion, distributedInfo, deviceProperties, displayTimeUnit, otherData
// (what was dropped, how exact the clocks are) and traceEvents. A rank is a process (pid = rank)
// with one thread, named by ph "M" events; a span is a ph "X" event, ts and dur in us since the
// first span, on the clock of rank 0. Pure.
struct RankTrace {
  std::string host;
  std::vector<TraceEntry> entries;
  std::uint64_t dropped = 0;
  std::int64_t ahead_ns = 0;  // of its clock, compared with rank 0's
  std::int64_t error_ns = 0;  // of that, at most
  MUSTER_FIELDS(host, entries, dropped, ahead_ns, error_ns)
};

std::string format_trace(std::span<const RankTrace> ranks);

}  // namespace muster
