// Which records a controller reads back when it starts (`Store::load_live`), besides all that came
// since the first live job: a record about a job is kept with it, any other kind says `keep`.
#pragma once

#include <cstdint>

namespace muster {

enum class Keep : std::uint8_t {
  with_job,      // while the job lives
  newest,        // the newest of its kind about the node, and of its keep_key() where it has one
  month,         // so is that one, and those of the last fault_memory
  while_faulty,  // all since the node last had no fault; those with a keep_key `recurs` as `month`
};

}  // namespace muster
