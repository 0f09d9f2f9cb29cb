#include "runtime/protocol/checkpoint_layout.h"

#include "runtime/protocol/crc32c.h"
#include "runtime/protocol/number_text.h"

namespace muster {
namespace {

std::string seal_for(std::string_view covered) {
  return printed(",\"crc32c\":\"%08x\"}\n", crc32c(covered));
}

}  // namespace

std::string kept_tokenizer_name(std::uint32_t data_crc32c) {
  return printed("tokenizer-%08x.json", data_crc32c);
}

std::string checkpoint_directory_name(const CheckpointName& name) {
  return printed("s%09llu-g%llu", static_cast<unsigned long long>(name.step),
                 static_cast<unsigned long long>(name.generation));
}

std::optional<CheckpointName> parse_checkpoint_directory_name(std::string_view text) {
  const std::size_t dash = text.find("-g");
  if (text.empty() || text.front() != 's' || dash == std::string_view::npos) return std::nullopt;
  const auto step = read_whole_number(text.substr(1, dash - 1));
  const auto generation = read_whole_number(text.substr(dash + 2));
  if (!step || !generation) return std::nullopt;
  const CheckpointName name{*step, *generation};
  if (checkpoint_directory_name(name) != text) return std::nullopt;
  return name;
}

std::string checkpoint_shard_name(std::size_t rank, std::size_t ranks) {
  return printed("shard-%05zu-of-%05zu.safetensors", rank, ranks);
}

std::string seal_json(std::string object) {
  if (!object.empty()) object.pop_back();
  return object + seal_for(object);
}

bool is_committed_json(std::string_view text) {
  if (text.size() <= checkpoint_seal_bytes) return false;
  const std::string_view covered = text.substr(0, text.size() - checkpoint_seal_bytes);
  return text.substr(covered.size()) == seal_for(covered);
}

bool nests_too_deeply(std::string_view text) {
  std::size_t depth = 0;
  bool is_string = false;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    if (is_string && c == '\\')
      ++at;
    else if (c == '"')
      is_string = !is_string;
    else if (!is_string && (c == '[' || c == '{') && ++depth > json_depth_limit)
      return true;
    else if (!is_string && (c == ']' || c == '}') && depth > 0)
      --depth;
  }
  return false;
}

}  // namespace muster
