// The weights for other programs, read back by the rules of safetensors alone.
#include "runtime/train/save/save.h"

#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <numeric>

#include "tests/catch.h"
#include "tests/runtime/folder.h"

using namespace muster;
using namespace muster::test;

namespace {

// Three parameters with padding behind each.
FlatSpace a_padded_space() {
  FlatSpace space;
  space.add("wte.weight", {3, 5}, true);
  space.add("ln_f.bias", {1}, false);
  space.add("h.0.weight", {2, 1000}, true);
  return space;
}

// Every element's value is its place.
std::vector<float> places(const FlatSpace& space) {
  std::vector<float> values(space.numel);
  std::iota(values.begin(), values.end(), 0.0f);
  return values;
}

struct Tensors {
  nlohmann::ordered_json header;
  std::size_t header_bytes = 0;
  std::string data;

  explicit Tensors(const std::string& file) {
    std::uint64_t length = 0;
    std::memcpy(&length, file.data(), sizeof length);
    header = nlohmann::ordered_json::parse(file.substr(8, length));
    header_bytes = 8 + length;
    data = file.substr(header_bytes);
  }
  std::vector<float> values(const std::string& name) const {
    const auto begin = header.at(name).at("data_offsets").at(0).get<std::size_t>();
    const auto end = header.at(name).at("data_offsets").at(1).get<std::size_t>();
    std::vector<float> found((end - begin) / sizeof(float));
    std::memcpy(found.data(), data.substr(begin, end - begin).data(), end - begin);
    return found;
  }
};

}  // namespace

TEST_CASE("weights are tensors under their names, one after the other and without padding") {
  const FlatSpace space = a_padded_space();
  const std::vector<float> values = places(space);
  const std::uint64_t part = GENERATE(1000, 1024, 3000, 1 << 20);
  Folder folder;
  auto file = WeightsFile::create(folder.path(), space);
  REQUIRE(file);
  // In any order.
  for (std::uint64_t hi = space.numel; hi > 0;) {
    const std::uint64_t lo = hi > part ? hi - part : 0;
    REQUIRE(file.value().write({lo, hi}, std::span(values).subspan(lo, hi - lo)));
    hi = lo;
  }
  REQUIRE(file.value().replace());
  const Tensors tensors(content_of(folder / weights_file_name));
  CHECK(tensors.header_bytes % 8 == 0);
  CHECK(tensors.header.at("__metadata__").at("format") == "pt");
  CHECK(tensors.header.size() == 1 + space.params.size());
  std::size_t at = 0;
  for (const FlatParameter& param : space.params) {
    const auto& entry = tensors.header.at(param.name);
    CHECK(entry.at("dtype") == "F32");
    CHECK(entry.at("shape") == param.shape);
    CHECK(entry.at("data_offsets").at(0) == at);
    at += param.size() * sizeof(float);
    CHECK(entry.at("data_offsets").at(1) == at);
    const auto first = values.begin() + static_cast<std::ptrdiff_t>(param.offset);
    CHECK(tensors.values(param.name) ==
          std::vector<float>(first, first + static_cast<std::ptrdiff_t>(param.size())));
  }
  CHECK(tensors.data.size() == at);
}

TEST_CASE("the weights of before stay until the new ones are whole") {
  const FlatSpace space = a_padded_space();
  Folder folder;
  put(folder / weights_file_name, "old");
  {
    auto file = WeightsFile::create(folder.path(), space);
    REQUIRE(file);
    REQUIRE(file.value().write({0, space.numel}, places(space)));
    CHECK(content_of(folder / weights_file_name) == "old");
  }
  CHECK(content_of(folder / weights_file_name) == "old");
  CHECK(std::distance(std::filesystem::directory_iterator(folder.path()), {}) == 1);
  CHECK_FALSE(WeightsFile::create("/nonexistent", space));
}
