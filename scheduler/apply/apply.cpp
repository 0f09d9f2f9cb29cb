#include "scheduler/apply/apply.h"

#include "scheduler/apply/parts.h"

namespace muster {

void apply(State& state, const Record& record) {
  const auto apply_it = [&](const auto& what) { apply_one(state, record.at, what); };
  std::visit([&](const auto& kind) { std::visit(apply_it, kind); }, record.what);
}

}  // namespace muster
