// What two nodes get out of TCP: round trips of one byte, then as much as several streams carry,
// one way and then the other. One half serves on a port for one partner that knows the token, the
// other connects. Both say the same figures, and how long their own host kept them waiting. Nothing
// is waited for without a limit; threads live only during the call.
//
//   client                                     server
//   muster-probe 1 TOKEN begin STREAMS MS  ->
//                                          <-  welcome | refused
//   muster-probe 1 TOKEN stream            ->  on each stream's own connection
//                                          <-  ready
//   ping ROUNDS, then bytes                ->  each comes back
//   up                                     ->  streams carry data for MS, then end that way
//                                          <-  got BYTES NANOSECONDS
//   down                                   ->
//                                          <-  streams carry data for MS, then end
//   figures GBPS MICROSECONDS              ->
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "scheduler/model/result.h"

namespace muster {

inline constexpr std::size_t tcp_streams_max = 64;
inline constexpr std::chrono::milliseconds tcp_time_max{60'000};

struct TcpFigures {
  double gbps = 0;           // of the slower way, what the receiver got
  double round_trip_us = 0;  // median
  double waited_pct = 0;     // of the time, for a processor: of the half that says it
};

struct TcpServeOptions {
  std::string address;  // empty: all of this host
  std::uint16_t port = 0;
  std::string token;
  std::chrono::milliseconds wait{60'000};             // for the partner
  std::chrono::milliseconds grace{5'000};             // for each step beyond the time that it takes
  std::function<void(std::uint16_t port)> listening;  // may be empty
};

struct TcpConnectOptions {
  std::string host;
  std::uint16_t port = 0;
  std::string token;
  std::chrono::milliseconds wait{30'000};
  std::chrono::milliseconds grace{5'000};
  std::size_t streams = 8;
  std::chrono::milliseconds time{4'000};  // each way
};

Result<TcpFigures> serve_tcp_probe(const TcpServeOptions& options);
Result<TcpFigures> connect_tcp_probe(const TcpConnectOptions& options);

}  // namespace muster
