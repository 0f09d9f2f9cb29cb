#include "runtime/data/token_source.h"

#include <algorithm>
#include <string_view>

namespace muster {

void TextTokens::copy(std::uint64_t at, std::span<std::uint32_t> tokens) const {
  const std::string_view bytes = std::string_view(text_).substr(at, tokens.size());
  std::transform(bytes.begin(), bytes.end(), tokens.begin(),
                 [](char byte) { return static_cast<unsigned char>(byte); });
}

}  // namespace muster
