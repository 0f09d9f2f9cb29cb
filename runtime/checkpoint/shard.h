// One shard: a valid safetensors file with one rank's range of the three planes.
//
// u64 little-endian header length, JSON header that begins with "{", spaces so that the data starts
// at a multiple of 4096 B, then master, exp_avg, exp_avg_sq of elements [lo, hi), without holes. No
// timestamps: equal state gives equal bytes. Written in place, fdatasync'd, close checked; nothing
// here commits anything.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/checkpoint/file/checked.h"
#include "runtime/checkpoint/file/write.h"
#include "runtime/checkpoint/flat_space.h"
#include "runtime/checkpoint/manifest.h"

namespace muster {

// Who the shard belongs to; goes into the header's __metadata__.
struct ShardIdentity {
  std::string run_id;
  std::uint64_t step = 0;
  std::uint64_t generation = 0;
  std::uint64_t layout = 0;
};

struct ShardWriter {
  std::string host;
  std::uint64_t rank = 0;
  std::uint64_t ranks = 1;
};

using PlaneSpans = std::array<std::span<const float>, flat_planes>;  // each range.size() long

// The bytes before the data: length, header, padding.
std::string shard_header(const ShardIdentity& identity, const ElementRange& range);

// Whether `bytes`, all those before the data, are the header of such a shard. Unknown keys pass.
Checked<NoValue> check_shard_header(std::string_view bytes, const ShardIdentity& identity,
                                    const ElementRange& range);

// What stands before the data: the length of the header as u64 little-endian, then `json`, padded
// with blanks so that the data begins at a multiple of `alignment` bytes.
std::string safetensors_header(std::string json, std::size_t alignment);

// A shard that is written while its values are still arriving.
//
//   begin()    the file is there, its space reserved
//   filled()   so many bytes of the planes, in the file's order, have their final values: the
//              pieces that are whole are on their way to the disk
//   finish()   all is filled: checksums and vitals are taken while pieces are in flight; returns
//              when the shard is durable
//
// The planes' memory belongs to the caller and stays as it is from filled() to the end. Used by
// one thread.
class ShardWrite {
 public:
  static Checked<ShardWrite> begin(const std::string& directory, const ShardIdentity& identity,
                                   const ShardWriter& writer, const ElementRange& range,
                                   const PlaneSpans& planes, WriteChoice& choice);

  void filled(std::uint64_t bytes);
  Checked<ShardRecord> finish();

 private:
  // Part of one chunk and of one plane; or the header.
  struct Piece {
    std::uint64_t offset = 0;
    std::span<const char> bytes;
    std::size_t plane = flat_planes;  // flat_planes: the header
    std::uint64_t first = 0;          // flat index of its first element
  };

  ShardWrite(FileWrite file, std::string header, ShardRecord record);
  void cut(const PlaneSpans& planes);
  void look_at(const Piece& piece, std::array<TensorStatsSum, flat_planes>& vitals);
  void sum_up();

  FileWrite file_;
  std::vector<char> header_;  // its address stays when this is moved
  ShardRecord record_;
  std::vector<Piece> pieces_;
  std::size_t put_ = 0;  // pieces given to the file
};

}  // namespace muster
