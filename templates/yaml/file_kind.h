// Which kind of file a tree is: by `type`, else by `$schema`, else by its shape. Findings say when
// the two differ and when the kind is one that muster does not offer.
#pragma once

#include "templates/yaml/read_options.h"
#include "templates/yaml/value.h"

namespace muster {

FileKind detect_kind(const Value& root);

}  // namespace muster
