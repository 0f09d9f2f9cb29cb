// The addresses of one sandbox: a /22 of 10.64.0.0/10 that nothing on this machine uses.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "scheduler/model/result.h"

namespace muster {

// IPv4, in the machine's byte order.
using Address = std::uint32_t;

std::string address_text(Address address);
std::optional<Address> parse_address(const std::string& text);

class Subnet {
 public:
  explicit Subnet(Address base) : base_(base) {}
  static constexpr int prefix_bits = 22;

  Address base() const { return base_; }
  Address gateway() const { return base_ + 1; }
  // Of the host with this index, from 0; the first ten addresses stay free.
  Address host(int index) const { return base_ + 11 + static_cast<Address>(index); }

 private:
  Address base_;
};

// The first free one, beginning the search at a place that `tag` chooses. Pure.
Result<Subnet> choose_subnet(unsigned tag, const std::vector<Address>& used);

// Every IPv4 address that an interface of this machine has.
std::vector<Address> addresses_in_use();

}  // namespace muster
