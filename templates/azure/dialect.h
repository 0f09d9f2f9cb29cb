// The command job as the client of Azure ML (azure-ai-ml) reads it: which keys there are, and what
// may stand there. Stricter than muster's own reading in types and nulls. Pure data, any thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "templates/yaml/node.h"

namespace muster {

enum class AzureTakes { anything, text, whole, flag, word, list_of_texts, text_or_list, map };

struct AzurePlace {
  std::string_view path;  // `*` is any key, `**` any below
  AzureTakes takes = AzureTakes::anything;
  std::string_view words{};  // that it may be, for `word`
  bool takes_null = false;
};

// A literal that the client reads as a date, which no input can be.
bool is_date_in_azure(const YamlNode& value);

using KeyPath = std::vector<std::string_view>;  // from the top; a key may hold dots

// nullptr: Azure ML has no such key.
const AzurePlace* azure_place(const KeyPath& path);

// What is expected there instead: "text", "one of a, b"; empty where the value is taken as it is.
std::string azure_misfit(const YamlNode& value, const AzurePlace& place);

// Writes a value so that it is taken and means the same here, where that can be.
void fit_for_azure(YamlNode& value, const AzurePlace& place);

}  // namespace muster
