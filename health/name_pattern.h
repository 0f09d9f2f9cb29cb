// Patterns of names of devices and checks: `*` is any text, `[a-b]` or `[abc]` one character.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace muster {

bool fits_pattern(std::string_view pattern, std::string_view text);
// The names that a pattern without `*` stands for: "mlx5_[0-7]:1" for 8. Nothing when it has one,
// is none, or stands for more than any node has.
std::optional<std::vector<std::string>> names_of_pattern(std::string_view pattern);

}  // namespace muster
