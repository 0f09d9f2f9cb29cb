// A value of the tree with its dotted path, and the conversions that say what is wrong with it. An
// absent value converts to nothing without a word, so a reader is a list of "if given, store".
// A MapReader remembers the keys it was asked for; whatever is left over is an unknown key.
#pragma once

#include <array>
#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "scheduler/text/clock.h"
#include "scheduler/text/spelling.h"
#include "scheduler/text/text.h"
#include "templates/yaml/finding.h"
#include "templates/yaml/node.h"

namespace muster {

class Value {
 public:
  Value() = default;  // absent
  Value(const YamlNode& node, std::string path, FindingList& findings)
      : node_(&node), path_(std::move(path)), findings_(&findings) {}

  bool given() const { return node_ != nullptr; }  // the key is there, perhaps without a value
  bool present() const { return given() && node_->kind != YamlNode::Kind::null; }
  bool is_null() const { return given() && node_->kind == YamlNode::Kind::null; }
  bool is_scalar() const { return given() && node_->kind == YamlNode::Kind::scalar; }
  bool is_list() const { return given() && node_->kind == YamlNode::Kind::list; }
  bool is_map() const { return given() && node_->kind == YamlNode::Kind::map; }
  const YamlNode& node() const { return *node_; }
  const std::string& path() const { return path_; }
  // Of a value in a map: its key, and where the key stands.
  const std::string& key() const { return entry_->key; }
  const Place& key_place() const { return entry_->place; }
  FindingList& findings() const { return *findings_; }

  // Each reports a value of the wrong type and returns nothing for it; null counts as absent.
  std::optional<std::string> text() const;
  std::optional<int> integer(int lowest, int highest) const;
  std::optional<double> number() const;
  std::optional<bool> boolean() const;
  std::optional<Milliseconds> duration() const;
  std::vector<Value> list() const;                      // the items; an error for anything else
  std::vector<Value> list_or_one() const;               // a single scalar counts as a list of one
  std::vector<std::string> texts() const;               // of list_or_one
  std::map<std::string, std::string> text_map() const;  // null values are empty text

  // One of a fixed set of words, case and `-`/`_` ignored.
  template <class E>
  std::optional<E> choice(std::initializer_list<std::pair<const char*, E>> words) const {
    std::vector<std::string> names;
    for (const auto& word : words) names.push_back(word.first);
    const auto index = word_index(names);
    return index ? std::optional((words.begin() + *index)->second) : std::nullopt;
  }
  // One of all words of an enumeration, in its order (EnumWords).
  template <class E, std::size_t n>
  std::optional<E> choice(const std::array<std::string_view, n>& words) const {
    const auto index = word_index({words.begin(), words.end()});
    return index ? std::optional(static_cast<E>(*index)) : std::nullopt;
  }
  // The word itself, in the spelling listed.
  std::optional<std::string> word(const std::vector<std::string>& words) const;

  // `path: message` at this value's position.
  void report(Severity severity, const std::string& message, std::string suggestion = "") const;
  void error(const std::string& message, std::string suggestion = "") const {
    report(Severity::error, message, std::move(suggestion));
  }
  // "expected …, got …".
  std::nullopt_t misfit(const std::string& expected, std::string suggestion = "") const;
  void unresolved(const std::string& message) const { report(Severity::unresolved, message); }
  void warning(const std::string& message) const { report(Severity::warning, message); }
  void note(const std::string& message) const { report(Severity::note, message); }
  // Wholly `<...>` or `{{...}}`, which the author still has to fill in: says so, and true.
  bool is_to_be_replaced(std::string_view text, std::string_view by_what = "") const;
  // "did you mean 'x'?" as above; nothing once findings are no longer shown.
  template <class Names>
  std::string suggest(std::string_view wrong, const Names& names) const {
    if (findings_->full()) return "";
    return did_you_mean(wrong, std::vector<std::string>(names.begin(), names.end()));
  }

  Value item(std::size_t index) const;
  Value entry(const Entry& entry) const;

 private:
  std::optional<int> word_index(const std::vector<std::string>& names) const;
  // As `suggest`, and for the end of a word: 'uri_folder' for 'folder'.
  std::string suggest_word(const std::vector<std::string>& names) const;
  bool expect_scalar(const std::string& expected) const;
  bool expect_one_reading(const std::string& expected) const;

  const YamlNode* node_ = nullptr;
  const Entry* entry_ = nullptr;
  std::string path_;
  FindingList* findings_ = nullptr;
};

class MapReader {
 public:
  // Anything but a map is reported; null and absent read as an empty map.
  explicit MapReader(const Value& map);

  Value take(std::string_view key);
  // Absent or null: an error at the map.
  Value require(std::string_view key);
  // Keys that are legal and without meaning here, or written by Azure itself: a note.
  void ignore(std::initializer_list<const char*> keys, const char* why);
  // Reports every key nobody asked for. Call it last.
  void finish(Severity severity = Severity::error);

  const Value& value() const { return map_; }
  std::vector<Value> entries() const;

 private:
  Value map_;
  std::vector<std::string> known_;
};

// What Azure ML would pass instead of a scalar without quotes that looks like no text: a note, and
// true when there is one.
bool note_other_reading(const Value& value);
// `null` and `~` written out where text may stand: nothing here, and a note.
void note_null_word(const Value& value);

// YAML 1.1 words: true, yes, on, y and their opposites, any case.
std::optional<bool> boolean_word(std::string_view text);
// A whole number in decimal, also `2.0` and `1e3`; nullopt for anything else.
std::optional<long long> whole_number(std::string_view text);
std::optional<double> real_number(std::string_view text);

// What Azure ML makes of a value without quotes: its reader follows YAML 1.1, where `010` is eight
// and `12:30` is 750. Here such a value is the text as written, so whoever reads one says what it
// is there. "Azure ML passes 511" for `0777`, "Azure ML reads a date" and the like; nothing where
// the value is the same in both places. Booleans are left to the caller.
std::optional<std::string> other_in_azure(std::string_view text);
// Whether it is text there: no number, no date, no boolean.
bool is_text_in_azure(std::string_view text);
// The octal number that `010` is there; nothing for text of any other form.
std::optional<long long> octal_number(std::string_view text);
// `yes`, `no`, `on`, `off`, `true` and `false`, as the reader of Azure ML takes them.
std::optional<bool> boolean_in_azure(std::string_view text);

template <class Field, class T>
void store(Field& field, const std::optional<T>& value) {
  if (value) field = static_cast<Field>(*value);
}

}  // namespace muster
