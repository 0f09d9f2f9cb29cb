// TCP between two nodes by iperf3 (https://github.com/esnet/iperf, 3.12 and later): as much as
// several streams carry, one way and then the other, and the shortest round trip. One half serves
// both tests on a port, the other connects and measures. iperf3 knows no token: it listens for as
// long as the tests take.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "health/model/performance.h"
#include "scheduler/model/result.h"

namespace muster {

inline constexpr int tcp_streams_max = 64;

struct IperfCall {
  std::string server;   // the host to connect to; empty: this end serves one test
  std::string address;  // that serves; empty: all of this host
  std::uint16_t port = 0;
  int streams = 8;
  std::chrono::seconds time{4};
  bool is_reverse = false;  // the server sends
};
std::vector<std::string> iperf_argv(const IperfCall& call);

struct TcpFigures {
  double gbps = 0;           // what the receiver got
  double round_trip_us = 0;  // the shortest of all streams, as the sender's kernel has it
};
// Of a connecting end's JSON.
Result<TcpFigures> read_iperf(std::string_view json);

// Both tests. What it says is that the tool is missing, if it is, and how long its own host kept it
// waiting.
void serve_tcp(IperfCall call, std::chrono::seconds wait);
// tcp_gbps of the slower way and tcp_latency_us.
void connect_tcp(IperfCall call);

}  // namespace muster
