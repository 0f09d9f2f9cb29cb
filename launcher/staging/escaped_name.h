// File names in JSON, which holds only UTF-8, while names hold any bytes: a `%` is written `%25`,
// and where the name is not UTF-8 each of its bytes above 0x7f is written `%hh`. Pure.
#pragma once

#include <string>

namespace muster {

std::string escaped(const std::string& name);
// Throws std::runtime_error when a `%` is not followed by two hex digits.
std::string unescaped(const std::string& text);

}  // namespace muster
