// The journal's vocabulary. An Observation is what the world told us, a Decision is what we chose;
// a Record is either, with its time. `apply` is the only reader that changes State. Plain values.
//
// Each struct has a stable `kind` (the name in the journal) and lists its fields once in `fields`.
// A new field must be optional in meaning: older journals lack it and read as the default here.
#pragma once

#include <string>
#include <variant>

#include "scheduler/model/decision.h"
#include "scheduler/model/keep.h"
#include "scheduler/model/observation.h"
#include "scheduler/text/clock.h"

namespace muster {

struct Record {
  Time at;
  std::variant<Observation, Decision> what;
};

template <class AnyRecord, class Function>
auto visit_record(AnyRecord& record, Function function) {
  return std::visit([&](auto& side) { return std::visit(function, side); }, record.what);
}

// What a record is about. Null: it says nothing of the kind (a link has no job).

const JobId* job_of(const Record& record);
const NodeId* node_of(const Record& record);
const char* kind_of(const Record& record);  // its stable name in the journal
Keep keep_of(const Record& record);
std::string keep_key_of(const Record& record);  // empty: its kind has none

template <class T>
const T* record_as(const Record& record) {
  return visit_record(record, [](const auto& one) -> const T* {
    if constexpr (std::is_same_v<std::decay_t<decltype(one)>, T>) return &one;
    return nullptr;
  });
}

}  // namespace muster
