// --profile: the spans of a few steps of all ranks, in one file.
//
// Owned by the run. At the start the ranks compare their clocks; after the last step that is
// wanted, or at the end of a shorter run, rank 0 gets all spans and writes them. A run that is
// killed before has no profile. All methods are the training thread's, and collective.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "runtime/communicator/communicator.h"
#include "runtime/report/trace.h"
#include "runtime/train/step/options.h"

namespace muster {

// A communicator that writes down how long this rank waited in it, transfer by transfer, and is
// another one otherwise.
class TracedCommunicator final : public Communicator {
 public:
  // Both outlive this object and its transfers.
  TracedCommunicator(Communicator& inner, Trace& trace) : inner_(inner), trace_(trace) {}

  // Transfers are counted from here.
  void begin_step() { started_ = 0; }

  std::size_t rank() const override { return inner_.rank(); }
  std::size_t size() const override { return inner_.size(); }
  std::unique_ptr<Transfer> start_all_to_all(std::span<const float> send,
                                             std::span<const ElementRange> send_ranges,
                                             std::span<float> receive,
                                             std::span<const ElementRange> receive_ranges) override;
  std::unique_ptr<Transfer> start_all_gather(std::span<float> whole,
                                             std::span<const ElementRange> owned) override;
  std::vector<std::string> gather_texts(std::string_view mine) override;
  void broadcast(std::span<char> bytes, std::size_t root) override {
    inner_.broadcast(bytes, root);
  }
  void abort(int exit_code) override { inner_.abort(exit_code); }

 private:
  Communicator& inner_;
  Trace& trace_;
  std::uint64_t started_ = 0;  // in this step
};

// How far the clocks of ranks are apart.
//
// Rank 0 sends a time to a rank, which answers with its own. The answer was given between sending
// and receiving, so the middle of both is off by half the round trip at most (Cristian 1989); of
// several tries the quickest counts. Clocks of one host agree by themselves.
struct RankClock {
  std::int64_t ahead_ns = 0;  // of the other clock
  std::int64_t error_ns = 0;  // at most
};

struct ClockAnswer {
  std::int64_t sent_ns = 0;
  std::int64_t answered_ns = 0;  // on the other clock
  std::int64_t received_ns = 0;
};

// `answers` holds at least one.
RankClock offset_of(std::span<const ClockAnswer> answers);

// By rank, on rank 0; nothing on the others. Steady clocks are compared. Collective.
std::vector<RankClock> measure_clock_offsets(Communicator& ranks);

class Profile {
 public:
  // `finished`: steps before the first one of this run. Throws StartError, the same on all ranks,
  // when the file could not be created.
  Profile(const TrainOptions& options, const std::string& host, std::uint64_t finished,
          Communicator& ranks);

  Trace& trace() { return trace_; }
  // To be used by the steps.
  TracedCommunicator& ranks() { return traced_; }

  void begin_step(std::uint64_t finished);
  // What became of it, for a person, when this was the last step; otherwise empty.
  std::string end_step(std::uint64_t finished) { return finished >= last_ ? end() : ""; }
  // Nothing when it is written already.
  std::string end();

 private:
  std::string write();

  std::string path_;
  std::string host_;
  std::uint64_t first_, last_;  // steps, counted from 1
  Communicator& ranks_;
  Trace trace_;
  TracedCommunicator traced_;
  std::vector<RankClock> offsets_;
  bool is_written_ = false;
};

}  // namespace muster
