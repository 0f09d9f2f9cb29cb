// The streams of a TCP probe, all at once, one thread each.
#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

#include "health/active/probe_socket.h"
#include "scheduler/model/result.h"

namespace muster {

struct BulkReceipt {
  std::uint64_t bytes = 0;
  std::chrono::nanoseconds took{0};  // from the first byte of any to the last of all
  double waited = 0;                 // part of the time that streams waited for a processor
};

// Sends for this long, then ends that way of each stream. An error when the other side takes
// nothing for `grace`. What BulkReceipt::waited is.
Result<double> send_bulk(std::vector<ProbeSocket>& streams, std::chrono::milliseconds time,
                 std::chrono::milliseconds grace);

// Until all streams have ended.
Result<BulkReceipt> receive_bulk(std::vector<ProbeSocket>& streams, ProbeMoment until);

double gbps_of(const BulkReceipt& receipt);

}  // namespace muster
