#include "health/fabric/host_device.h"

#include <algorithm>
#include <charconv>

namespace muster {

namespace {

constexpr std::string_view digits = "0123456789";

bool is_name(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-' || c == '.';
  });
}

std::optional<int> number_of(std::string_view text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool is_whole = error == std::errc() && end == text.data() + text.size();
  return is_whole && value >= 0 ? std::optional(value) : std::nullopt;
}

std::optional<HostDevice> counted_from_one(std::string_view host, std::string_view device) {
  constexpr int hca_max = 255;
  const auto number = number_of(device.substr(std::string_view("HCA-").size()));
  if (!number || *number < 1 || *number > hca_max) return std::nullopt;
  return HostDevice{std::string(host), "mlx5_" + std::to_string(*number - 1), *number - 1};
}

}  // namespace

std::optional<HostDevice> host_device_of(std::string_view description) {
  const std::size_t blank = description.find(' ');
  if (blank == std::string_view::npos) return std::nullopt;
  const std::string_view host = description.substr(0, blank);
  const std::string_view device = description.substr(blank + 1);
  if (!is_name(host) || !is_name(device)) return std::nullopt;
  if (device.starts_with("HCA-")) return counted_from_one(host, device);
  const bool is_device = device.front() >= 'a' && device.front() <= 'z' &&
                         device.find_first_of(digits) != std::string_view::npos;
  if (!is_device) return std::nullopt;
  const std::size_t line = device.rfind('_');
  HostDevice found{std::string(host), std::string(device), std::nullopt};
  if (line != std::string_view::npos) found.rail = number_of(device.substr(line + 1));
  return found;
}

}  // namespace muster
