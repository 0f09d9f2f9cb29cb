// What Azure ML makes of a value without quotes: its reader follows YAML 1.1, where `010` is eight
// and `12:30` is 750. Here such a value is the text as written, so whoever reads one says what it
// is there. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace muster {

// "Azure ML passes 511" for `0777`, "Azure ML reads a date" and the like; nothing where the value
// is the same in both places. Booleans are left to the caller.
std::optional<std::string> other_in_azure(std::string_view text);

// Whether a value without quotes is text there: no number, no date, no boolean.
bool is_text_in_azure(std::string_view text);

// The octal number that `010` is there; nothing for text of any other form.
std::optional<long long> octal_number(std::string_view text);

// `yes`, `no`, `on`, `off`, `true` and `false`, as the reader of Azure ML takes them.
std::optional<bool> boolean_in_azure(std::string_view text);

}  // namespace muster
