#include "health/kernel/pci_address.h"

#include <cstdint>

#include "health/lower_case.h"

namespace muster {

namespace {

bool is_hex(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

std::size_t hex_digits(std::string_view text) {
  std::size_t count = 0;
  while (count < text.size() && is_hex(text[count])) ++count;
  return count;
}

// At least four digits, more only where they are needed.
std::string normal_domain(std::string_view digits) {
  while (digits.size() > 4 && digits.front() == '0') digits.remove_prefix(1);
  return std::string(digits.size() < 4 ? 4 - digits.size() : 0, '0') + lower_case(digits);
}

struct Taken {
  std::string address;
  std::size_t size = 0;
};

// `bb:dd` or `bb:dd.f`
std::optional<Taken> take_bus(std::string_view text) {
  if (hex_digits(text) != 2 || text.substr(2, 1) != ":") return std::nullopt;
  if (hex_digits(text.substr(3)) != 2) return std::nullopt;
  const bool has_function = text.size() > 6 && text[5] == '.' && text[6] >= '0' && text[6] <= '7' &&
                            hex_digits(text.substr(6)) == 1;
  return Taken{lower_case(text.substr(0, 5)) + "." + (has_function ? text[6] : '0'),
               has_function ? std::size_t{7} : std::size_t{5}};
}

// `dddd:bb:dd[.f]`
std::optional<Taken> take_address(std::string_view text) {
  const std::size_t domain = hex_digits(text);
  if (domain < 4 || domain > 8 || text.substr(domain, 1) != ":") return std::nullopt;
  auto bus = take_bus(text.substr(domain + 1));
  if (!bus) return std::nullopt;
  return Taken{normal_domain(text.substr(0, domain)) + ":" + bus->address, domain + 1 + bus->size};
}

}  // namespace

std::optional<std::string> normal_pci_address(std::string_view text) {
  if (text.starts_with("PCI:")) text.remove_prefix(4);
  auto taken = take_address(text);
  if (!taken) {
    taken = take_bus(text);
    if (taken) taken->address.insert(0, "0000:");
  }
  if (!taken || taken->size != text.size()) return std::nullopt;
  return taken->address;
}

std::optional<std::string> find_pci_address(std::string_view text) {
  std::size_t at = 0;
  while (at < text.size()) {
    const std::size_t digits = hex_digits(text.substr(at));
    if (digits == 0) {
      ++at;
      continue;
    }
    if (auto taken = take_address(text.substr(at))) return taken->address;
    at += digits;
  }
  return std::nullopt;
}

}  // namespace muster
