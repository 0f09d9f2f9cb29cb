// Checks on the bytes of a YAML text before any parser sees them: size, UTF-8, control characters,
// runaway nesting of brackets.
#pragma once

#include <memory>

#include "templates/finding.h"

namespace muster {

// False after a finding that makes parsing pointless.
bool check_yaml_text(const std::shared_ptr<const Source>& source, FindingList& findings);

// The text without a byte order mark.
std::string_view without_byte_order_mark(std::string_view text);

// Length of the valid UTF-8 sequence at the start of `bytes` (not empty); 0 if there is none.
std::size_t utf8_length(std::string_view bytes);

}  // namespace muster
