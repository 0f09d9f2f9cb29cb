#include "runtime/checkpoint/shard.h"

#include "runtime/checkpoint/shard_write.h"

namespace muster {

Checked<ShardRecord> write_shard(const std::string& directory, const ShardIdentity& identity,
                                 const ShardWriter& writer, const ElementRange& range,
                                 const PlaneSpans& planes, WriteChoice& choice) {
  auto write = ShardWrite::begin(directory, identity, writer, range, planes, choice);
  if (!write) return write.fault();
  return write.value().finish();
}

Checked<ShardRecord> write_shard(const std::string& directory, const ShardIdentity& identity,
                                 const ShardWriter& writer, const ElementRange& range,
                                 const PlaneSpans& planes) {
  WriteChoice choice{WriteWay::buffered, ""};
  return write_shard(directory, identity, writer, range, planes, choice);
}

}  // namespace muster
