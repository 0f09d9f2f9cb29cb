// What a record is about. Null: it says nothing of the kind (a link has no job).
#pragma once

#include "scheduler/model/record.h"

namespace muster {

const JobId* job_of(const Record& record);
const NodeId* node_of(const Record& record);
const char* kind_of(const Record& record);  // its stable name in the journal

template <class T>
const T* record_as(const Record& record) {
  return std::visit(
      [](const auto& side) -> const T* {
        const auto get = [](const auto& one) -> const T* {
          if constexpr (std::is_same_v<std::decay_t<decltype(one)>, T>) return &one;
          return nullptr;
        };
        return std::visit(get, side);
      },
      record.what);
}

}  // namespace muster
