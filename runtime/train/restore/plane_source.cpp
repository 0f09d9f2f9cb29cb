#include "runtime/train/restore/plane_source.h"

#include <algorithm>
#include <vector>

#include "runtime/checkpoint/choose.h"

namespace muster {
namespace {

constexpr std::uint64_t broadcast_elements = 1 << 20;

}  // namespace

PlaneSource::PlaneSource(const std::string& path, const Manifest& manifest, std::size_t source_rank,
                         Communicator& ranks)
    : reader_(path, manifest),
      numel_(manifest.flat.numel),
      source_rank_(source_rank),
      ranks_(ranks) {
  // Another node may hold another checkpoint under the same name.
  const auto seen = read_manifest(path);
  const bool sees_files = seen && format_manifest(seen.value()) == format_manifest(manifest);
  for (const std::string& vote : ranks.gather_texts(sees_files ? "+" : "-")) {
    direct_ = direct_ && vote == "+";
  }
}

Checked<NoValue> PlaneSource::fill(std::size_t plane, const ElementRange& range,
                                   std::span<float> out) {
  return direct_ ? reader_.read(plane, range.lo, out) : receive(plane, range, out);
}

Checked<NoValue> PlaneSource::receive(std::size_t plane, const ElementRange& range,
                                      std::span<float> out) {
  Checked<NoValue> outcome = NoValue{};
  std::vector<float> piece;
  for (std::uint64_t at = 0; at < numel_; at += piece.size()) {
    piece.assign(std::min(broadcast_elements, numel_ - at), 0.0f);
    if (ranks_.rank() == source_rank_ && outcome.ok()) outcome = reader_.read(plane, at, piece);
    ranks_.broadcast({reinterpret_cast<char*>(piece.data()), piece.size() * sizeof(float)},
                     source_rank_);
    const std::uint64_t lo = std::max(at, range.lo);
    const std::uint64_t hi = std::min(at + piece.size(), range.hi);
    if (lo < hi) std::copy_n(&piece[lo - at], hi - lo, &out[lo - range.lo]);
  }
  return outcome;
}

}  // namespace muster
