// Records as stores of older versions hold them, made into what this build reads. What is only
// absent from them needs nothing: absent fields keep their defaults. Heavy: for the codec's source.
#pragma once

#include <string_view>

#include "launcher/wire/json_fields.h"

namespace muster {

// Throws as reading does, when the record is none.
void bring_up_to_date(std::string_view kind, Json& record);

}  // namespace muster
