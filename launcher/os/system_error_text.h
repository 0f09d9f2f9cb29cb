// The sentence for a failed system call: what was attempted, on which thing, what the system said.
#pragma once

#include <cerrno>
#include <cstring>
#include <string>

#include "scheduler/model/result.h"

namespace muster {

inline Error system_error(const std::string& attempted, int error_number = errno) {
  std::string message = "could not " + attempted + ": " + std::strerror(error_number);
  if (error_number == ENOSPC || error_number == EDQUOT) {
    message += "; free space on this node or set another home";
  }
  return Error{std::move(message)};
}

}  // namespace muster
