// A shard that is written while its values are still arriving.
//
//   begin()    the file is there, its space reserved
//   filled()   so many bytes of the planes, in the file's order, have their final values: the
//              pieces that are whole are on their way to the disk
//   finish()   all is filled: checksums and vitals are taken while pieces are in flight; returns
//              when the shard is durable
//
// The planes' memory belongs to the caller and stays as it is from filled() to the end. Used by
// one thread. What a shard looks like is in shard.h.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "runtime/checkpoint/file/write.h"
#include "runtime/checkpoint/shard.h"

namespace muster {

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
  void look_at(const Piece& piece, std::array<VitalsSum, flat_planes>& vitals);
  void sum_up();

  FileWrite file_;
  std::vector<char> header_;  // its address stays when this is moved
  ShardRecord record_;
  std::vector<Piece> pieces_;
  std::size_t put_ = 0;  // pieces given to the file
};

}  // namespace muster
