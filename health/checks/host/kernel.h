// When a node started.
#pragma once

#include <string>

#include "scheduler/text/clock.h"
#include "scheduler/text/fields.h"

namespace muster {

struct BootSeen {
  std::string boot_id;
  Time first_seen{};

  MUSTER_FIELDS(boot_id, first_seen)
};

}  // namespace muster
