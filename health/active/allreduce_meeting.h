// Two nodes meet to reduce over the GPUs of both: on a TCP connection of their own the connecting
// half, which has to know the token, gets the unique id of NCCL that the serving half made. After
// each step both say how far they are and what they measured, so that neither waits in NCCL for
// one that failed. Nothing is waited for without a limit. One thread; knows neither CUDA nor NCCL.
//
//   client                                                     server
//   muster-probe 1 TOKEN allreduce VERSION GPUS BYTES MS  ->
//                                                        <-    id HEX GPUS BYTES | failed WHY
//   STEP NUMBER                                          <->   STEP NUMBER     for each step
//   failed WHY                                           <->   failed WHY      at any moment: the
//                                                              connection ends
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "health/active/probe_socket.h"
#include "scheduler/model/result.h"

namespace muster {

inline constexpr int allreduce_gpus_max = 64;                       // of one node
inline constexpr std::uint64_t allreduce_bytes_least = 1ull << 20;  // of one all-reduce
inline constexpr std::uint64_t allreduce_bytes_max = 1ull << 40;
inline constexpr std::chrono::milliseconds allreduce_time_max{120'000};

using AllreduceId = std::array<unsigned char, 128>;  // ncclUniqueId

// What one node brings.
struct AllreduceNode {
  int nccl_version = 0;     // 22809; nodes of two versions do not understand each other for sure
  int gpus = 0;             // 1 to allreduce_gpus_max, a rank each
  std::uint64_t bytes = 0;  // of one all-reduce, that each of its GPUs has memory for
};

struct AllreduceServing {
  std::string address;  // empty: all of this host
  std::uint16_t port = 0;
  std::string token;
  std::chrono::milliseconds wait{60'000};             // for the partner
  std::chrono::milliseconds grace{20'000};            // for each line while they meet
  std::function<void(std::uint16_t port)> listening;  // may be empty
};

struct AllreduceConnecting {
  std::string host;
  std::uint16_t port = 0;
  std::string token;
  std::chrono::milliseconds wait{30'000};
  std::chrono::milliseconds grace{20'000};
  std::chrono::milliseconds time{10'000};  // of the measurement, for both halves
};

// `interface`: over which the two nodes have met; empty: unknown.
using MakeAllreduceId = std::function<Result<AllreduceId>(const std::string& interface)>;

class AllreduceMeeting {
 public:
  static Result<AllreduceMeeting> serve(const AllreduceServing& options, const AllreduceNode& own,
                                        const MakeAllreduceId& make_id);
  static Result<AllreduceMeeting> connect(const AllreduceConnecting& options,
                                          const AllreduceNode& own);

  const AllreduceId& id() const { return id_; }
  int ranks() const { return ranks_; }            // of both nodes
  int first_rank() const { return first_rank_; }  // of this node; the serving one's come first
  std::uint64_t bytes() const { return bytes_; }  // that both have memory for
  std::chrono::milliseconds time() const { return time_; }
  const std::string& interface() const { return interface_; }

  // Both have come to this step, each with a number of 0 or more: the larger one, to both.
  Result<std::int64_t> agree(std::string_view step, std::int64_t number, ProbeMoment until);

  // Looked at while NCCL works: why the other half will not come to the next step.
  std::optional<std::string> trouble();

  // Tells the other half, which then waits for nothing; this one is over.
  void fail(std::string_view why);

 private:
  Status admit(const AllreduceServing& options, const AllreduceNode& own);
  Status hand_out(const AllreduceServing& options, const AllreduceNode& own,
                  const MakeAllreduceId& make_id);
  Status take_id(const AllreduceConnecting& options, const AllreduceNode& own);

  ProbeSocket socket_;
  std::string interface_;
  AllreduceId id_{};
  int ranks_ = 0;
  int first_rank_ = 0;
  std::uint64_t bytes_ = 0;
  std::chrono::milliseconds time_{0};
};

}  // namespace muster
