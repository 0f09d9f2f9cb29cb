#include "health/active/processor_list.h"

#include <charconv>

namespace muster {

namespace {

// Whether the text begins with a number, which is taken away.
bool take_number(std::string_view& text, int& number) {
  const auto [at, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || number < 0 || number >= listed_processor_max) return false;
  text.remove_prefix(static_cast<std::size_t>(at - text.data()));
  return true;
}

}  // namespace

std::vector<int> read_processor_list(std::string_view text) {
  if (text.ends_with('\n')) text.remove_suffix(1);
  std::vector<int> processors;
  while (true) {
    int first = 0;
    if (!take_number(text, first)) return {};
    int last = first;
    if (text.starts_with('-')) {
      text.remove_prefix(1);
      if (!take_number(text, last) || last < first) return {};
    }
    for (int processor = first; processor <= last; ++processor) processors.push_back(processor);
    if (text.empty()) return processors;
    const bool too_many = processors.size() > static_cast<std::size_t>(listed_processor_max);
    if (!text.starts_with(',') || too_many) return {};
    text.remove_prefix(1);
  }
}

}  // namespace muster
