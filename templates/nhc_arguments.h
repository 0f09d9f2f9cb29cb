// The arguments of a check in an nhc.conf: sizes, shares, counts and options. Pure.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "templates/nhc_line.h"

namespace muster {

// The text of a word; empty for one that is not there or that only a shell can fill in.
std::string plain_word(const std::vector<NhcWord>& words, std::size_t at);

// Not negative.
std::optional<double> number_at(const std::vector<NhcWord>& words, std::size_t at);
std::optional<int> count_at(const std::vector<NhcWord>& words, std::size_t at, int highest);

// "32gb", "0kB", "5G", "1024": kilobytes of 1024.
std::optional<double> nhc_size_kb(std::string text);
// "5%": from 0 to 100.
std::optional<double> nhc_percent(std::string text);

struct NhcOptions {
  std::map<char, std::vector<std::string>> given;  // by letter; empty texts without an argument
  std::vector<std::string> rest;
  std::string error;
};

// As getopts reads them: letters of `known` with a `:` behind take an argument.
NhcOptions nhc_options(const std::vector<NhcWord>& words, std::string_view known);

}  // namespace muster
