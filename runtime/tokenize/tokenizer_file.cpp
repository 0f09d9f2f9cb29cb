#include "runtime/tokenize/tokenizer_file.h"

#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "runtime/checkpoint/flat_space.h"
#include "runtime/checkpoint/manifest_fields.h"
#include "runtime/protocol/checkpoint_layout.h"

namespace muster {
namespace {

using namespace fields;

// Code points for the 256 bytes: printable ones of Latin-1 stand for themselves, the others follow
// from U+0100 on.
const std::array<std::uint32_t, 256>& characters_of_bytes() {
  static const auto table = [] {
    std::array<std::uint32_t, 256> characters{};
    std::uint32_t next = 256;
    for (std::uint32_t byte = 0; byte < 256; ++byte) {
      const bool printable =
          (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
      characters[byte] = printable ? byte : next++;
    }
    return characters;
  }();
  return table;
}

std::string printable(std::string_view bytes) {
  std::string text;
  for (const char byte : bytes) {
    const std::uint32_t code = characters_of_bytes()[static_cast<unsigned char>(byte)];
    if (code < 0x80) {
      text.push_back(static_cast<char>(code));
    } else {
      text.push_back(static_cast<char>(0xC0 | code >> 6));
      text.push_back(static_cast<char>(0x80 | (code & 0x3F)));
    }
  }
  return text;
}

// The bytes behind a printable text; none when it holds another character.
std::optional<std::string> bytes_of(std::string_view text) {
  static const auto by_character = [] {
    std::map<std::uint32_t, char> bytes;
    for (std::uint32_t byte = 0; byte < 256; ++byte) {
      bytes[characters_of_bytes()[byte]] = static_cast<char>(byte);
    }
    return bytes;
  }();
  std::string bytes;
  for (std::size_t at = 0; at < text.size(); ++at) {
    std::uint32_t code = static_cast<unsigned char>(text[at]);
    if (code >= 0x80) {
      if (++at == text.size()) return std::nullopt;
      code = (code & 0x1F) << 6 | (static_cast<unsigned char>(text[at]) & 0x3F);
    }
    const auto found = by_character.find(code);
    if (found == by_character.end()) return std::nullopt;
    bytes.push_back(found->second);
  }
  return bytes;
}

bool is_absent(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found == object.end() || found->is_null() || *found == false || *found == "";
}

void require_plain_model(const Json& json) {
  require(json.is_object(), "is no JSON object");
  require(is_absent(json, "normalizer"), "normalizer: none is supported");
  const Json& before = member(json, "pre_tokenizer");
  require(text(before, "type") == "ByteLevel", "pre_tokenizer: expected the type ByteLevel");
  require(is_absent(before, "add_prefix_space"), "pre_tokenizer: add_prefix_space: expected false");
  require(!before.contains("use_regex") || before["use_regex"] == true,
          "pre_tokenizer: use_regex: expected true");
  const Json& model = member(json, "model");
  require(!model.contains("type") || model["type"] == "BPE", "model: expected the type BPE");
  for (const char* key : {"dropout", "continuing_subword_prefix", "end_of_word_suffix",
                          "byte_fallback", "ignore_merges"}) {
    require(is_absent(model, key), std::string("model: ") + key + ": none is supported");
  }
}

// Special tokens may stand in the vocabulary too, and lie behind it where they do not.
void read_special(const Json& json, TokenizerParts& parts) {
  if (!json.contains("added_tokens")) return;
  for (const Json& entry : list(json, "added_tokens")) {
    const std::uint64_t id = whole_number(entry, "id");
    require(id <= parts.tokens.size(), "added_tokens: ids do not follow the vocabulary");
    const std::string content = text(entry, "content");
    if (id == parts.tokens.size()) parts.tokens.emplace_back();
    parts.tokens[id] = content;
    parts.special.push_back(static_cast<std::uint32_t>(id));
  }
  std::sort(parts.special.begin(), parts.special.end());
  require(std::adjacent_find(parts.special.begin(), parts.special.end()) == parts.special.end(),
          "added_tokens: an id is a duplicate");
}

void read_vocabulary(const Json& json, TokenizerParts& parts,
                     std::map<std::string, std::uint32_t>& ids) {
  std::vector<std::string> printed;
  const Json& vocabulary = member(member(json, "model"), "vocab");
  require(vocabulary.is_object(), "model: vocab: expected an object");
  printed.resize(vocabulary.size());
  std::vector<bool> is_given(vocabulary.size(), false);
  for (const auto& [token, id] : vocabulary.items()) {
    require(id.is_number_unsigned() && id.get<std::uint64_t>() < printed.size(),
            "model: vocab: ids are not 0 to one less than their number");
    const auto number = id.get<std::uint32_t>();
    require(!is_given[number], "model: vocab: an id is a duplicate");
    is_given[number] = true;
    printed[number] = token;
    ids[token] = number;
  }
  parts.tokens = printed;
  read_special(json, parts);
  for (std::uint32_t token = 0; token < printed.size(); ++token) {
    if (std::binary_search(parts.special.begin(), parts.special.end(), token)) continue;
    const auto bytes = bytes_of(printed[token]);
    require(bytes.has_value(), "model: vocab: " + printed[token] + " is not of GPT-2's characters");
    parts.tokens[token] = *bytes;
  }
}

// "a b" in older files, ["a", "b"] in newer ones.
TokenPair merge_of(const Json& merge, const std::map<std::string, std::uint32_t>& ids) {
  std::string left;
  std::string right;
  if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string()) {
    left = merge[0].get<std::string>();
    right = merge[1].get<std::string>();
  } else if (merge.is_string()) {
    const std::string both = merge.get<std::string>();
    const std::size_t blank = both.find(' ');
    require(blank != std::string::npos, "model: merges: expected two tokens");
    left = both.substr(0, blank);
    right = both.substr(blank + 1);
  }
  const auto first = ids.find(left);
  const auto second = ids.find(right);
  require(first != ids.end() && second != ids.end(),
          "model: merges: " + left + " " + right + ": expected two tokens of the vocabulary");
  return {first->second, second->second};
}

std::uint32_t end_of(const TokenizerParts& parts, const std::string& name) {
  const std::string wanted = name.empty() ? usual_end_of_document : name;
  for (const std::uint32_t special : parts.special) {
    if (parts.tokens[special] == wanted) return special;
  }
  require(name.empty() && parts.special.empty(),
          "has no special token " + wanted +
              " for the end of a document: name one with --end-of-document");
  const auto zero = std::find(parts.tokens.begin(), parts.tokens.end(), std::string(1, '\0'));
  require(zero != parts.tokens.end(), "byte 0 has no token");
  return static_cast<std::uint32_t>(zero - parts.tokens.begin());
}

TokenizerParts parts_of(const Json& json, const std::string& end_of_document) {
  require_plain_model(json);
  TokenizerParts parts;
  std::map<std::string, std::uint32_t> ids;
  read_vocabulary(json, parts, ids);
  for (const Json& merge : list(member(json, "model"), "merges")) {
    parts.merges.push_back(merge_of(merge, ids));
  }
  parts.end_of_document = end_of(parts, end_of_document);
  return parts;
}

Json byte_level(bool trims) {
  return {{"type", "ByteLevel"},
          {"add_prefix_space", false},
          {"trim_offsets", trims},
          {"use_regex", true}};
}

}  // namespace

std::string format_tokenizer(const Tokenizer& tokenizer) {
  const TokenizerParts& parts = tokenizer.parts();
  Json special = Json::array();
  for (const std::uint32_t token : parts.special) {
    special.push_back(Json{{"id", token},
                           {"content", parts.tokens[token]},
                           {"single_word", false},
                           {"lstrip", false},
                           {"rstrip", false},
                           {"normalized", false},
                           {"special", true}});
  }
  Json vocabulary = Json::object();
  for (std::uint32_t token = 0; token < parts.tokens.size(); ++token) {
    const bool is_special = std::binary_search(parts.special.begin(), parts.special.end(), token);
    // A plain list of members: looking each up first would take quadratic time.
    vocabulary.get_ref<Json::object_t&>().push_back(
        {is_special ? parts.tokens[token] : printable(parts.tokens[token]), token});
  }
  Json merges = Json::array();
  for (const auto& [left, right] : parts.merges) {
    merges.push_back(printable(parts.tokens[left]) + " " + printable(parts.tokens[right]));
  }
  const Json document = {{"version", "1.0"},
                         {"truncation", nullptr},
                         {"padding", nullptr},
                         {"added_tokens", std::move(special)},
                         {"normalizer", nullptr},
                         {"pre_tokenizer", byte_level(true)},
                         {"post_processor", nullptr},
                         {"decoder", byte_level(true)},
                         {"model",
                          {{"type", "BPE"},
                           {"dropout", nullptr},
                           {"unk_token", nullptr},
                           {"continuing_subword_prefix", nullptr},
                           {"end_of_word_suffix", nullptr},
                           {"fuse_unk", false},
                           {"byte_fallback", false},
                           {"vocab", std::move(vocabulary)},
                           {"merges", std::move(merges)}}}};
  return document.dump(1) + "\n";
}

Checked<Tokenizer> parse_tokenizer(std::string_view text, const std::string& end_of_document) {
  if (nests_too_deeply(text)) return CheckpointFault{"is nested too deeply", true};
  // An unordered reading: the vocabulary is a map of tens of thousands of members.
  const nlohmann::json sorted = nlohmann::json::parse(text, nullptr, false);
  if (sorted.is_discarded()) return CheckpointFault{"is not JSON", true};
  try {
    return Tokenizer::make(parts_of(sorted, end_of_document));
  } catch (const FieldError& error) {
    return CheckpointFault{error.what(), true};
  }
}

std::string tokenizer_hash(std::string_view text) {
  return hex64(fnv1a64(text));
}

}  // namespace muster
