// The network devices of the namespace this process is in. System calls only: a host sets itself up
// without a program.
#pragma once

#include <optional>
#include <string>

#include "launcher/sandbox/subnet.h"
#include "scheduler/model/result.h"

namespace muster {

struct InterfaceAddress {
  Address address = 0;
  int prefix_bits = 0;
};

Status bring_up(const std::string& interface, const std::optional<InterfaceAddress>& address);
// Replaces one that is there.
Status add_default_route(Address gateway);
Result<bool> is_up(const std::string& interface);

}  // namespace muster
