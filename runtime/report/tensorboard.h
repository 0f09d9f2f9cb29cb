// TensorBoard event files: scalars by step, readable by any TensorBoard.
//
// File events.out.tfevents.<time>.<host>.<pid>, a sequence of records: u64 length, u32 masked
// CRC-32C of the length, payload, u32 masked CRC-32C of the payload, little-endian; mask(c) =
// rotate_right(c, 15) + 0xa282ead8. Payload: tensorflow.Event in protobuf wire format, 1 wall_time
// double, 2 step int64, 3 file_version string, 5 summary { 1 value { 1 tag, 2 simple_value float }
// }, 7 session_log { 1 status }. The first event says "brain.Event:2"; the second starts a session
// (status 1) at the first step of the file, upon which TensorBoard drops what an earlier file of
// the same run has for this step and later ones. Rank 0 owns one.
#pragma once

#include <cstdint>
#include <fstream>
#include <span>
#include <string>

namespace muster {

struct Scalar {
  std::string tag;
  float value = 0;
};

// One record around `payload`.
std::string event_record(const std::string& payload);

// The payloads.
std::string version_event(double wall_time_s);
std::string session_start_event(double wall_time_s, std::uint64_t step);
std::string scalars_event(double wall_time_s, std::uint64_t step, std::span<const Scalar> scalars);

class EventWriter {
 public:
  // Creates the file in `directory`, which exists. Throws StartError when it cannot.
  EventWriter(const std::string& directory, double wall_time_s, const std::string& host, long pid,
              std::uint64_t first_step);

  // Appends and flushes to the system, so that a reader sees it at once and a killed run keeps it.
  void write(double wall_time_s, std::uint64_t step, std::span<const Scalar> scalars) {
    file_ << event_record(scalars_event(wall_time_s, step, scalars)) << std::flush;
  }

 private:
  std::ofstream file_;
};

}  // namespace muster
