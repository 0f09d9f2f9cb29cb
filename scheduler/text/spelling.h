// Suggestions for misspelt names, and how a user's text is quoted in a message. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace muster {

// Insertions, deletions, substitutions and swaps of neighbours that turn `a` into `b`; values above
// `limit` are all reported as `limit + 1`.
int edit_distance(std::string_view a, std::string_view b, int limit);

// The candidate within two edits of `name` (one for two or three letters, none for one), the
// closest first, then the first listed; empty if there is none. Dotted parts that agree do not
// count.
std::string nearest(std::string_view name, const std::vector<std::string>& candidates);

// "did you mean 'x'?" for the nearest candidate, `otherwise` if there is none.
std::string did_you_mean(std::string_view name, const std::vector<std::string>& candidates,
                         std::string_view otherwise = {});

// 'text' in single quotes, shortened to 60 characters.
std::string quoted_text(std::string_view text);

// Lower case, `-` as `_`: how names of a fixed set are compared.
std::string folded(std::string_view word);

}  // namespace muster
