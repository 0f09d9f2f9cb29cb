#include "launcher/agent/gpu_count.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <string_view>

namespace muster {

namespace {

namespace fs = std::filesystem;

// The domain has four hexadecimal digits, and more on some machines.
bool is_pci_address(std::string_view name) {
  const std::size_t colon = name.find(':');
  if (colon == std::string_view::npos || colon < 4 || colon > 8) return false;
  constexpr std::string_view rest = ":xx:xx.x";
  const std::string_view end = name.substr(colon);
  const auto fits = [](char wanted, char c) {
    return wanted == 'x' ? std::isxdigit(static_cast<unsigned char>(c)) != 0 : wanted == c;
  };
  return end.size() == rest.size() &&
         std::all_of(name.begin(), name.begin() + static_cast<std::ptrdiff_t>(colon),
                     [](unsigned char c) { return std::isxdigit(c) != 0; }) &&
         std::equal(rest.begin(), rest.end(), end.begin(), fits);
}

}  // namespace

Result<int> count_gpus(const std::string& root) {
  const fs::path list = fs::path(root) / "proc/driver/nvidia/gpus";
  std::error_code failed;
  fs::directory_iterator entry(list, failed);
  int count = 0;
  for (; !failed && entry != fs::directory_iterator(); entry.increment(failed)) {
    if (is_pci_address(entry->path().filename().string())) ++count;
  }
  if (!failed || failed == std::errc::no_such_file_or_directory) return count;
  return Error{"cannot count the GPUs in " + list.string() + ": " + failed.message()};
}

}  // namespace muster
