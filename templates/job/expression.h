// `${{ … }}` expressions and `$[[ … ]]` optional groups inside text. Pure.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace muster {

struct Expression {
  std::size_t begin = 0;  // of `${{`
  std::size_t end = 0;    // after `}}`
  std::string name;       // without the blanks, e.g. `inputs.x`
};

// Every expression in order. An opening without a closing ends the list and sets `unclosed`.
struct Expressions {
  std::vector<Expression> found;
  bool unclosed = false;
};
Expressions find_expressions(std::string_view text);

// One argument of a program cannot be longer on Linux (MAX_ARG_STRLEN), and `command` is one.
constexpr std::size_t max_expanded_text = 131071;

// The text with every expression replaced; those that `value_of` has no value for stay. Stops
// early, with a text longer than `max_expanded_text`, where the result would be.
std::string expand(std::string_view text,
                   const std::function<std::optional<std::string>(const std::string&)>& value_of);

// `{inputs.x}`, `{outputs.x}` and `{search_space.x}` as `${{…}}`, as Azure ML reads them; what was
// changed is appended to `names`.
std::string with_whole_braces(std::string_view text, std::vector<std::string>& names);

// The insides of `$[[ … ]]`, in order.
std::vector<std::string> optional_groups(std::string_view text);

}  // namespace muster
