#include "runtime/report/weights_file.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "runtime/checkpoint/shard.h"

namespace muster {
namespace {

std::string weights_header(const FlatSpace& space) {
  nlohmann::ordered_json header;
  header["__metadata__"] = {{"format", "pt"}};
  std::uint64_t at = 0;
  for (const FlatParameter& param : space.params) {
    const std::uint64_t end = at + param.size() * sizeof(float);
    header[param.name] = {{"dtype", "F32"}, {"shape", param.shape}, {"data_offsets", {at, end}}};
    at = end;
  }
  return safetensors_header(header.dump(), 8);
}

std::uint64_t bytes_of(const FlatSpace& space) {
  std::uint64_t elements = 0;
  for (const FlatParameter& param : space.params) elements += param.size();
  return elements * sizeof(float);
}

}  // namespace

WeightsFile::WeightsFile(const FlatSpace& space, ReplacingFile file, std::uint64_t header_bytes)
    : space_(&space), file_(std::move(file)), header_bytes_(header_bytes) {}

Checked<WeightsFile> WeightsFile::create(const std::string& directory, const FlatSpace& space) {
  const std::string header = weights_header(space);
  auto file = ReplacingFile::create(directory, weights_file_name, header.size() + bytes_of(space));
  if (!file) return file.fault();
  auto put = file.value().write_at(0, header.data(), header.size());
  if (!put) return put.fault();
  return WeightsFile(space, std::move(file.value()), header.size());
}

Checked<NoValue> WeightsFile::write(const ElementRange& range, std::span<const float> weights) {
  std::uint64_t begin = header_bytes_;  // of the parameter in the file
  for (const FlatParameter& param : space_->params) {
    const std::uint64_t lo = std::max(param.offset, range.lo);
    const std::uint64_t hi = std::min(param.offset + param.size(), range.hi);
    if (lo < hi) {
      auto put = file_.write_at(begin + (lo - param.offset) * sizeof(float),
                                &weights[lo - range.lo], (hi - lo) * sizeof(float));
      if (!put) return put;
    }
    begin += param.size() * sizeof(float);
  }
  return NoValue{};
}

Checked<NoValue> WeightsFile::replace() {
  return file_.replace();
}

}  // namespace muster
