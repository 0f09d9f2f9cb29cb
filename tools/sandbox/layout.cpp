#include "tools/sandbox/layout.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>

namespace muster {

namespace {

// FNV-1a: any hash that stays the same between builds would do.
std::uint32_t hash_of(const std::string& text) {
  std::uint32_t hash = 2166136261u;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619u;
  return hash;
}

}  // namespace

SandboxLayout::SandboxLayout(std::filesystem::path folder)
    : folder_(std::move(folder)), tag_(hash_of(folder_.string())) {
  char text[16];
  std::snprintf(text, sizeof text, "ms%08x", tag_);
  prefix_ = text;
}

std::filesystem::path SandboxLayout::home(const std::string& name, bool is_private) const {
  return (is_private ? host(name) : folder_) / "home";
}

std::filesystem::path SandboxLayout::system_root(const std::string& name) const {
  return host(name) / "sysroot";
}

std::filesystem::path SandboxLayout::network(const std::string& name) const {
  return std::filesystem::path("/run/netns") / network_name(name);
}

std::string SandboxLayout::cable(const std::string& name) const {
  return prefix_ + name.substr(1);
}

std::vector<std::string> sandbox_host_names(int count) {
  const auto width = std::max<std::size_t>(2, std::to_string(count).size());
  std::vector<std::string> names;
  for (int number = 1; number <= count; ++number) {
    const std::string digits = std::to_string(number);
    names.push_back("h" + std::string(width - digits.size(), '0') + digits);
  }
  return names;
}

}  // namespace muster
