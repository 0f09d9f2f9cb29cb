#include "runtime/report/weights_file.h"

#include <nlohmann/json.hpp>

#include "runtime/checkpoint/durable_file.h"
#include "runtime/checkpoint/safetensors_header.h"

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

}  // namespace

Checked<NoValue> write_weights_file(const std::string& directory, const FlatSpace& space,
                                    std::span<const float> weights) {
  std::string content = weights_header(space);
  for (const FlatParameter& param : space.params) {
    const auto values = weights.subspan(param.offset, param.size());
    content.append(reinterpret_cast<const char*>(values.data()), values.size_bytes());
  }
  return replace_durably(directory, weights_file_name, content);
}

}  // namespace muster
