#include "launcher/staging/blob_receiver.h"

namespace muster {

Result<bool> BlobReceiver::accept(const BlobData& piece, std::string_view payload) {
  if (piece.offset == 0) {
    writers_.erase(piece.hash);
    auto writer = store_.writer(piece.hash);
    if (!writer) return writer.error();
    writers_.emplace(piece.hash, std::move(*writer));
  }
  const auto found = writers_.find(piece.hash);
  if (found == writers_.end()) {
    return Error{"a piece of blob " + piece.hash + " at offset " + std::to_string(piece.offset) +
                 " came without its beginning"};
  }
  Status status = found->second.append(piece.offset, payload);
  if (status && piece.last) status = found->second.finish();
  if (!status || piece.last) writers_.erase(found);
  if (!status) return status.error();
  return piece.last;
}

}  // namespace muster
