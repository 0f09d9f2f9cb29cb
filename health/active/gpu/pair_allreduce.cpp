#include <string>

#include "health/active/gpu/gpu_probes.h"
#include "health/benchmark/tools/sample_line.h"

namespace {
constexpr const char* metric = "two_node_allreduce_gb_per_s";
}

#ifdef MUSTER_HAS_NCCL

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "health/active/allreduce_meeting.h"
#include "health/active/allreduce_rounds.h"
#include "health/active/gpu/end_anyway.h"
#include "health/active/gpu/gpu_timing.h"
#include "health/active/gpu/nccl_calls.h"
#include "health/active/gpu/reduced_memory.h"

namespace muster {

namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using std::chrono::seconds;

// As all_reduce_perf -e 16G; less where the memory is short or the network slow.
constexpr std::size_t pair_bytes_most = 16ull << 30;
// NCCL gives back what it has, where it still can.
constexpr seconds end_limit{10};
constexpr int trial_rounds = 3;
constexpr std::chrono::microseconds between_peer_looks{50};

template <class T>
T or_throw(Result<T> result) {
  if (!result) throw GpuFailure(result.error().message);
  return std::move(*result);
}

// Both nodes hear of a failure before anything is taken down, which may take long, or hang.
struct Hearers {
  AllreduceMeeting& meeting;
  OnlyLine& line;
};

template <class Work>
void telling(const Hearers& hearers, Work work) {
  try {
    work();
  } catch (const std::exception& failure) {
    hearers.line.error(failure.what());
    hearers.meeting.fail(failure.what());
    throw;
  }
}

// A failure of the other node, and time, end what waits for NCCL.
class Patience {
 public:
  Patience(AllreduceMeeting& meeting, Clock::time_point until) : meeting_(meeting), until_(until) {}
  Clock::time_point until() const { return until_; }
  void look() const {
    if (const auto why = meeting_.trouble()) throw GpuFailure(*why);
    if (Clock::now() > until_) throw GpuFailure("NCCL did not get through in time");
    std::this_thread::sleep_for(between_peer_looks);
  }

 private:
  AllreduceMeeting& meeting_;
  Clock::time_point until_;
};

class PairCommunicators {
 public:
  PairCommunicators(const Hearers& hearers, int gpus, const Patience& patience)
      : patience_(patience), all_(static_cast<std::size_t>(gpus), nullptr) {
    try {
      telling(hearers, [&] { open(hearers.meeting); });
    } catch (...) {
      abort();
      throw;
    }
  }
  // The nodes have agreed that all is over, or something failed: nobody is waited for.
  ~PairCommunicators() { abort(); }
  PairCommunicators(const PairCommunicators&) = delete;

  ncclComm_t of(std::size_t gpu) const { return all_[gpu]; }

  // Until NCCL has done what it was asked for, or has given it to the GPUs.
  void settle() const {
    for (const ncclComm_t each : all_) {
      ncclResult_t state = ncclInProgress;
      for (;;) {
        require_nccl(ncclCommGetAsyncError(each, &state), "ncclCommGetAsyncError");
        require_nccl(state, "NCCL");
        if (state == ncclSuccess) break;
        patience_.look();
      }
    }
  }

 private:
  void open(const AllreduceMeeting& meeting) {
    ncclUniqueId id{};
    static_assert(sizeof id.internal == sizeof(AllreduceId));
    std::memcpy(id.internal, meeting.id().data(), meeting.id().size());
    require_nccl(ncclGroupStart(), "ncclGroupStart");
    for (std::size_t gpu = 0; gpu < all_.size(); ++gpu) {
      const int rank = meeting.first_rank() + static_cast<int>(gpu);
      require_cuda(cudaSetDevice(static_cast<int>(gpu)), "cudaSetDevice");
      open_one(all_[gpu], meeting.ranks(), id, rank);
    }
    require_nccl(ncclGroupEnd(), "ncclGroupEnd");
    settle();
  }

  static void open_one(ncclComm_t& communicator, int ranks, const ncclUniqueId& id, int rank) {
#ifdef NCCL_CONFIG_INITIALIZER
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    require_nccl(ncclCommInitRankConfig(&communicator, ranks, id, rank, &config),
                 "ncclCommInitRankConfig");
#else  // Before 2.14 it waits for the other node: EndAnyway is what ends that.
    require_nccl(ncclCommInitRank(&communicator, ranks, id, rank), "ncclCommInitRank");
#endif
  }

  void abort() {
    for (ncclComm_t& each : all_) {
      if (each != nullptr) ncclCommAbort(each);
      each = nullptr;
    }
  }

  const Patience& patience_;
  std::vector<ncclComm_t> all_;
};

class PairReduction {
 public:
  PairReduction(const Hearers& hearers, int gpus, const Patience& patience)
      : meeting_(hearers.meeting),
        patience_(patience),
        memory_(gpus, meeting_.bytes()),
        communicators_(hearers, gpus, patience) {
    require_cuda(cudaSetDevice(0), "cudaSetDevice");
    begin_ = std::make_unique<GpuMark>();
    end_ = std::make_unique<GpuMark>();
  }

  double bus_gb_per_s() {
    agree("open", {});
    const std::uint64_t trial_bytes = std::min(meeting_.bytes(), allreduce_trial_bytes);
    const nanoseconds trial = agree("trial", usual_time(trial_bytes, trial_rounds));
    // Both come to the same numbers.
    const AllreduceRounds rounds =
        allreduce_rounds(meeting_.bytes(), trial_bytes, trial, meeting_.time());
    const nanoseconds took = usual_time(rounds.bytes, rounds.count);
    memory_.check_sums(meeting_.ranks(), rounds.bytes);
    return allreduce_bus_gb_per_s(meeting_.ranks(), rounds.bytes, agree("round", took));
  }

 private:
  nanoseconds agree(const char* step, nanoseconds own) {
    return nanoseconds(or_throw(meeting_.agree(step, own.count(), patience_.until())));
  }

  // The median, by the first GPU's clock.
  nanoseconds usual_time(std::size_t bytes, int rounds) {
    for (int round = 0; round < gpu_warm_up_rounds; ++round) reduce(bytes);
    std::vector<double> took;
    for (int round = 0; round < rounds; ++round) {
      begin_->record(memory_.of(0).stream);
      reduce(bytes);
      took.push_back(end_->seconds_since(*begin_));
    }
    return std::max(nanoseconds(1), std::chrono::duration_cast<nanoseconds>(
                                        std::chrono::duration<double>(median_seconds(took))));
  }

  void reduce(std::size_t bytes) {
    begin_sum(memory_, communicators_, bytes);
    communicators_.settle();
    require_cuda(cudaSetDevice(0), "cudaSetDevice");
    end_->record(memory_.of(0).stream);
    for (std::size_t gpu = 0; gpu < memory_.gpus(); ++gpu) {
      while (!memory_.of(gpu).stream.is_idle()) patience_.look();
    }
  }

  AllreduceMeeting& meeting_;
  const Patience& patience_;
  ReducedMemory memory_;
  PairCommunicators communicators_;
  std::unique_ptr<GpuMark> begin_;
  std::unique_ptr<GpuMark> end_;
};

// By the way that is known to lead to the other node, unless the site says which one it is.
void use_interface(const std::string& interface) {
  if (!interface.empty()) setenv("NCCL_SOCKET_IFNAME", ("=" + interface).c_str(), 0);
}

Result<AllreduceId> new_id(const std::string& interface) {
  use_interface(interface);
  ncclUniqueId made{};
  const ncclResult_t result = ncclGetUniqueId(&made);
  if (result != ncclSuccess)
    return Error{std::string("ncclGetUniqueId: ") + ncclGetErrorString(result)};
  AllreduceId id{};
  std::memcpy(id.data(), made.internal, id.size());
  return id;
}

Result<AllreduceMeeting> meet(const GpuRun& run, const GpuPartner& partner,
                              const AllreduceNode& own) {
  if (partner.host.empty()) {
    AllreduceServing serving;
    serving.address = partner.address;
    serving.port = partner.port;
    serving.token = partner.token;
    serving.wait = run.time;
    return AllreduceMeeting::serve(serving, own, new_id);
  }
  AllreduceConnecting connecting;
  connecting.host = partner.host;
  connecting.port = partner.port;
  connecting.token = partner.token;
  connecting.time = run.time;
  auto meeting = AllreduceMeeting::connect(connecting, own);
  if (meeting) use_interface(meeting->interface());
  return meeting;
}

void measure(const GpuRun& run, const GpuPartner& partner, OnlyLine& line) {
  AllreduceNode own;
  own.nccl_version = nccl_version();
  own.gpus = std::min(run.gpus, allreduce_gpus_max);
  own.bytes = reducible_bytes(own.gpus, pair_bytes_most);
  if (own.bytes < allreduce_bytes_least) throw GpuFailure("the GPUs have no free memory");
  AllreduceMeeting meeting = or_throw(meet(run, partner, own));
  const auto until = Clock::now() + partner.limit + meeting.time();
  const EndAnyway end(until + std::min(end_limit, partner.limit), line, "NCCL hangs");
  const Patience patience(meeting, until);
  const Hearers hearers{meeting, line};
  telling(hearers, [&] {
    PairReduction reduction(hearers, own.gpus, patience);
    telling(hearers, [&] { line.value(reduction.bus_gb_per_s()); });
  });
}

}  // namespace

void probe_pair_allreduce(const GpuRun& run, const GpuPartner& partner) {
  OnlyLine line(metric);
  try {
    measure(run, partner, line);
  } catch (const std::exception& failure) {
    line.error(failure.what());
  }
}

int nccl_version() {
  int version = 0;
  return ncclGetVersion(&version) == ncclSuccess ? version : 0;
}

}  // namespace muster

#else

namespace muster {

void probe_pair_allreduce(const GpuRun&, const GpuPartner&) {
  print_probe_absent(metric, "", "muster-gpu-probe is not built with NCCL");
}

int nccl_version() {
  return 0;
}

}  // namespace muster

#endif
