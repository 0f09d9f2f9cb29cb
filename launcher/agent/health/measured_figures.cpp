#include "launcher/agent/health/measured_figures.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <utility>

#include "health/benchmark/samples.h"

namespace muster {

namespace {

using Json = nlohmann::json;

void require(bool holds, const char* what) {
  if (!holds) throw std::runtime_error(what);
}

std::string text_at(const Json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || found->is_null()) return {};
  return found->get<std::string>();
}

PerformanceSample read_figure(const Json& in) {
  require(in.is_object(), "a figure is no object");
  PerformanceSample sample;
  sample.metric = text_at(in, "metric");
  sample.device = text_at(in, "device");
  sample.error = text_at(in, "error");
  require(find_performance_metric(sample.metric) != nullptr, "a figure has no known name");
  const Json& value = in.at("value");
  if (value.is_null()) return sample;
  require(value.is_number(), "a figure is no number");
  sample.value = value.get<double>();
  require(std::isfinite(*sample.value) && *sample.value >= 0, "a figure is no number");
  return sample;
}

}  // namespace

Result<std::vector<PerformanceSample>> read_measured(std::string_view text) {
  try {
    const Json document = Json::parse(text);
    require(document.is_object(), "it is no object");
    const Json& list = document.at("figures");
    require(list.is_array() && list.size() <= probe_samples_max, "its figures are no list");
    std::vector<PerformanceSample> samples;
    for (const Json& one : list) samples.push_back(read_figure(one));
    return samples;
  } catch (const std::exception& wrong) {
    return Error{wrong.what()};
  }
}

}  // namespace muster
