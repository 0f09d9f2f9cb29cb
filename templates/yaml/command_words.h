// One line split into the words of a command, as a shell would that knows quotes and backslashes
// and nothing else. What a shell would act on is an error, not a word. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "scheduler/model/result.h"

namespace muster {

// "a 'b c' \"d\"" is a, `b c` and d.
Result<std::vector<std::string>> command_words(std::string_view line);

}  // namespace muster
