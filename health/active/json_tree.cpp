#include "health/active/json_tree.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>

namespace muster {

namespace {

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

// Each step says whether it went well; the first that does not ends it.
class JsonReader {
 public:
  explicit JsonReader(std::string_view text) : text_(text) {}

  std::optional<JsonNode> read() {
    JsonNode root;
    if (!read_value(root, 0)) return std::nullopt;
    skip_white();
    return at_ == text_.size() ? std::optional(std::move(root)) : std::nullopt;
  }
  std::size_t place() const { return at_; }

 private:
  bool read_value(JsonNode& node, int depth) {
    skip_white();
    if (depth > json_depth_max || ++values_ > json_values_max || at_ == text_.size()) return false;
    const char c = text_[at_];
    if (c == '{') return read_object(node, depth);
    if (c == '[') return read_list(node, depth);
    if (c == '"') return read_string(node.value.emplace<std::string>());
    if (c == '-' || is_digit(c)) return read_number(node);
    if (take_word("true")) return node.value.emplace<bool>(true);
    if (take_word("false")) return !node.value.emplace<bool>(false);
    return take_word("null");
  }

  bool read_object(JsonNode& node, int depth) {
    auto& members = node.value.emplace<JsonObject>();
    ++at_;
    if (take('}')) return true;
    do {
      skip_white();
      std::string key;
      if (at_ == text_.size() || text_[at_] != '"' || !read_string(key)) return false;
      const bool is_known =
          std::ranges::find(members, key, &JsonObject::value_type::first) != members.end();
      // More members than that have objects of no tool; looking for a key twice would take long.
      if (is_known || members.size() >= members_max || !take(':')) return false;
      members.emplace_back(std::move(key), JsonNode{});
      if (!read_value(members.back().second, depth + 1)) return false;
    } while (take(','));
    return take('}');
  }

  bool read_list(JsonNode& node, int depth) {
    auto& list = node.value.emplace<JsonList>();
    ++at_;
    if (take(']')) return true;
    do {
      list.emplace_back();
      if (!read_value(list.back(), depth + 1)) return false;
    } while (take(','));
    return take(']');
  }

  bool read_string(std::string& text) {
    for (++at_; at_ < text_.size(); ++at_) {
      const char c = text_[at_];
      if (c == '"') return ++at_ > 0;
      if (static_cast<unsigned char>(c) < ' ') return false;
      if (c != '\\') {
        text += c;
      } else if (!read_escape(text)) {
        return false;
      }
    }
    return false;
  }

  // Stands on its last character afterwards.
  bool read_escape(std::string& text) {
    if (++at_ == text_.size()) return false;
    constexpr std::string_view letters = "\"\\/bfnrt";
    constexpr std::string_view meant = "\"\\/\b\f\n\r\t";
    const std::size_t letter = letters.find(text_[at_]);
    if (letter != std::string_view::npos) {
      text += meant[letter];
      return true;
    }
    if (text_[at_] != 'u' || text_.size() - at_ < 5) return false;
    unsigned code = 0;
    const char* first = text_.data() + at_ + 1;
    const auto [end, error] = std::from_chars(first, first + 4, code, 16);
    if (error != std::errc() || end != first + 4) return false;
    text += code < 0x80 ? static_cast<char>(code) : '?';
    at_ += 4;
    return true;
  }

  bool read_number(JsonNode& node) {
    const std::string_view rest = text_.substr(at_);
    // from_chars also reads "-inf".
    if (rest.front() == '-' && (rest.size() < 2 || !is_digit(rest[1]))) return false;
    double& value = node.value.emplace<double>();
    const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), value);
    at_ += static_cast<std::size_t>(end - rest.data());
    return error == std::errc() && std::isfinite(value);
  }

  bool take_word(std::string_view word) {
    if (!text_.substr(at_).starts_with(word)) return false;
    at_ += word.size();
    return true;
  }

  bool take(char c) {
    skip_white();
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  void skip_white() { at_ = std::min(text_.find_first_not_of(" \t\r\n", at_), text_.size()); }

  static constexpr std::size_t members_max = 1000;
  std::string_view text_;
  std::size_t at_ = 0;
  std::size_t values_ = 0;
};

}  // namespace

const JsonNode* JsonNode::at(std::string_view key) const {
  const auto* members = std::get_if<JsonObject>(&value);
  if (members == nullptr) return nullptr;
  const auto found = std::ranges::find(*members, key, &JsonObject::value_type::first);
  return found == members->end() ? nullptr : &found->second;
}

Result<JsonNode> read_json(std::string_view text) {
  if (text.size() > json_text_max) return Error{"it is larger than 4 MiB"};
  JsonReader reader(text);
  auto root = reader.read();
  if (!root) return Error{"it is no JSON from byte " + std::to_string(reader.place()) + " on"};
  return *std::move(root);
}

}  // namespace muster
