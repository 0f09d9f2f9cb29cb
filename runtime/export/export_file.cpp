#include "runtime/export/export_file.h"

#include <algorithm>
#include <bit>

static_assert(std::endian::native == std::endian::little, "exported values are little-endian");

namespace muster {

Checked<ExportFile> ExportFile::create(const std::string& path, std::uint64_t bytes) {
  auto file = CheckpointFile::create(path, bytes);
  if (!file) return file.fault();
  return ExportFile(std::move(file.value()));
}

Checked<NoValue> ExportFile::append(std::string_view bytes) {
  auto put = file_.write_at(offset_, bytes.data(), bytes.size());
  if (put) offset_ += bytes.size();
  return put;
}

Checked<NoValue> ExportFile::append_tensor(CheckpointReader& reader, const FlatParameter& tensor) {
  constexpr std::uint64_t piece_elements = 1 << 20;
  const std::uint64_t end = tensor.offset + tensor.size();
  for (std::uint64_t at = tensor.offset; at < end; at += piece_.size()) {
    piece_.resize(std::min(piece_elements, end - at));
    if (auto got = reader.read(0, at, piece_); !got) return got;
    const auto* bytes = reinterpret_cast<const char*>(piece_.data());
    if (auto put = append({bytes, piece_.size() * sizeof(float)}); !put) return put;
  }
  return NoValue{};
}

}  // namespace muster
