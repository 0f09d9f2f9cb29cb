// The first step for every file of ours: text and `--set` options in, tree out.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "templates/parse_file.h"

namespace muster {

// Null after an error, which is then in `findings`; a null node for an empty file.
std::shared_ptr<const YamlNode> parse_with_sets(const std::string& path, std::string_view text,
                                            const ReadOptions& options, FindingList& findings);

}  // namespace muster
