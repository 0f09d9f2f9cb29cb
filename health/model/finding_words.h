// The words of a finding's enumerations for the codecs, as they stand in JSON.
#pragma once

#include <array>

#include "health/model/check.h"
#include "health/model/finding.h"
#include "scheduler/model/names.h"

namespace muster {

template <>
struct EnumWords<CheckStatus> {
  static constexpr auto words = check_status_words;
};
template <>
struct EnumWords<Persistence> {
  static constexpr auto words = std::to_array<std::string_view>({"event", "delta", "samples"});
};

}  // namespace muster
