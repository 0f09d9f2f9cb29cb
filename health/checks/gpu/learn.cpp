#include "health/checks/gpu/learn.h"

namespace muster {

namespace {

std::string why_missing(const GpuReadings& gpus, const std::string& key) {
  const GpuReading* reading = gpus.find(key);
  if (reading == nullptr) return "it was not queried";
  return reading->rc != 0 ? nvml_code_text(reading->rc) : "it says '" + reading->value + "'";
}

}  // namespace

bool has_answer(const BaselineNode& node) {
  return node.gpus != nullptr && node.gpus->is_complete() && node.gpus->text("count").has_value();
}

std::vector<std::string> answering_gpus(const BaselineNode& node) {
  std::vector<std::string> devices;
  const int count = has_answer(node) ? node.gpus->count() : 0;
  for (int gpu = 0; gpu < count; ++gpu) devices.push_back("gpu" + std::to_string(gpu));
  return devices;
}

std::optional<std::string> same_text(BaselineNode& node, const std::string& key, const char* fact) {
  std::optional<std::string> first;
  for (const std::string& device : answering_gpus(node)) {
    const auto text = node.gpus->text(device + "." + key);
    const bool is_alike = text && (!first || *first == *text);
    if (!is_alike) {
      node.leave_out(fact, text ? device + " says " + std::string(*text) + ", gpu0 says " + *first
                                : device + ": " + why_missing(*node.gpus, device + "." + key));
      return std::nullopt;
    }
    first = *text;
  }
  return first;
}

std::optional<int> same_number(BaselineNode& node, const std::string& key, const char* fact) {
  if (!same_text(node, key, fact)) return std::nullopt;
  const auto number = node.gpus->number("gpu0." + key);
  if (number && *number >= 0 && *number <= 1'000'000) return static_cast<int>(*number);
  node.leave_out(fact, "gpu0: " + why_missing(*node.gpus, "gpu0." + key));
  return std::nullopt;
}

std::optional<bool> same_flag(BaselineNode& node, const std::string& key, const char* fact) {
  constexpr int not_supported = 3;
  const GpuReading* first = has_answer(node) ? node.gpus->find("gpu0." + key) : nullptr;
  if (first != nullptr && first->rc == not_supported) return std::nullopt;
  const auto number = same_number(node, key, fact);
  return number ? std::optional(*number != 0) : std::nullopt;
}

}  // namespace muster
