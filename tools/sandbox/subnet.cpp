#include "tools/sandbox/subnet.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netinet/in.h>

#include <memory>
#include <set>

namespace muster {

namespace {

constexpr Address first_base = (10u << 24) | (64u << 16);
constexpr unsigned subnets = 1u << (Subnet::prefix_bits - 10);
constexpr int host_bits = 32 - Subnet::prefix_bits;

}  // namespace

std::string address_text(Address address) {
  std::string text;
  for (int shift = 24; shift >= 0; shift -= 8) {
    text += std::to_string(address >> shift & 255) + (shift > 0 ? "." : "");
  }
  return text;
}

std::optional<Address> parse_address(const std::string& text) {
  in_addr address{};
  if (::inet_pton(AF_INET, text.c_str(), &address) != 1) return std::nullopt;
  return ntohl(address.s_addr);
}

Result<Subnet> choose_subnet(unsigned tag, const std::vector<Address>& used) {
  std::set<Address> taken;
  for (const Address address : used) taken.insert(address >> host_bits << host_bits);
  for (unsigned i = 0; i < subnets; ++i) {
    const Address base = first_base + (((tag + i) % subnets) << host_bits);
    if (!taken.contains(base)) return Subnet(base);
  }
  return Error{"every /22 of 10.64.0.0/10 is in use on this machine; take a sandbox down"};
}

std::vector<Address> addresses_in_use() {
  std::vector<Address> found;
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return found;
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owner(list, ::freeifaddrs);
  for (const ifaddrs* at = list; at != nullptr; at = at->ifa_next) {
    if (at->ifa_addr == nullptr || at->ifa_addr->sa_family != AF_INET) continue;
    const auto* address = reinterpret_cast<const sockaddr_in*>(at->ifa_addr);
    found.push_back(ntohl(address->sin_addr.s_addr));
  }
  return found;
}

}  // namespace muster
