#include "scheduler/model/record.h"

namespace muster {

const JobId* job_of(const Record& record) {
  return visit_record(record, [](const auto& one) -> const JobId* {
    if constexpr (requires { one.job; }) return &one.job;
    return nullptr;
  });
}

const NodeId* node_of(const Record& record) {
  return visit_record(record, [](const auto& one) -> const NodeId* {
    if constexpr (requires { one.node; }) return &one.node;
    return nullptr;
  });
}

const char* kind_of(const Record& record) {
  return visit_record(record, [](const auto& one) { return one.kind; });
}

Keep keep_of(const Record& record) {
  return visit_record(record, [](const auto& one) {
    if constexpr (requires { one.job; })
      return Keep::with_job;
    else
      return one.keep;
  });
}

std::string keep_key_of(const Record& record) {
  return visit_record(record, [](const auto& one) -> std::string {
    if constexpr (requires { one.keep_key(); }) return one.keep_key();
    return "";
  });
}

}  // namespace muster
