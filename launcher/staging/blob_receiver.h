// The node's side of BlobData: pieces of many blobs, in order within a blob, into a BlobStore. A
// blob that begins again at offset 0 (after a reconnection) is started afresh; one that is in the
// store already is ignored. Owned by the agent's staging; one thread.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "launcher/staging/blob_store.h"
#include "launcher/wire/agent_message.h"

namespace muster {

class BlobReceiver {
 public:
  explicit BlobReceiver(const BlobStore& store) : store_(store) {}

  // True: this was the last piece and the blob is now in the store.
  Result<bool> accept(const BlobData& piece, std::string_view payload);
  // Forgets every unfinished blob: the sender is gone.
  void reset() { writers_.clear(); }

 private:
  const BlobStore& store_;
  std::map<std::string, BlobWriter> writers_;
};

}  // namespace muster
