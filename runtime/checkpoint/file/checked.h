// Checked<T>: a value, or one sentence that says why there is none.
//
// Storage failures are data here: functions that touch checkpoint files return this and never throw
// for them.
#pragma once

#include <string>
#include <utility>
#include <variant>

#include "runtime/protocol/start_error.h"

namespace muster {

// The reason why something about a checkpoint could not be done: the file, what went wrong.
struct CheckpointFault {
  std::string reason;
  // What is stored is wrong and stays so. Otherwise it could not be looked at: another time, or
  // from another node, it may be good.
  bool content_is_wrong = false;
};

// For operations without a result.
struct NoValue {};

template <class T>
class [[nodiscard]] Checked {
 public:
  Checked(T value) : held_(std::move(value)) {}  // NOLINT(google-explicit-constructor)
  Checked(CheckpointFault fault)
      : held_(std::move(fault)) {}  // NOLINT(google-explicit-constructor)

  bool ok() const { return std::holds_alternative<T>(held_); }
  explicit operator bool() const { return ok(); }
  // Defined only when ok().
  T& value() { return std::get<T>(held_); }
  const T& value() const { return std::get<T>(held_); }
  // Defined only when not ok().
  const CheckpointFault& fault() const { return std::get<CheckpointFault>(held_); }
  const std::string& reason() const { return fault().reason; }

 private:
  std::variant<T, CheckpointFault> held_;
};

// The value, for a run that cannot begin without it. Throws StartError.
template <class T>
T needed(Checked<T> result, const std::string& about = {}) {
  if (!result) throw StartError(about + result.reason());
  return std::move(result.value());
}

}  // namespace muster
