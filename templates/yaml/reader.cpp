#include "templates/yaml/reader.h"

#include <algorithm>
#include <map>
#include <sstream>

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include "scheduler/text/number.h"
#include "scheduler/text/spelling.h"
#include "templates/yaml/value.h"

namespace muster {

namespace {

// Thrown out of the library's parser when a limit of ours is reached; caught in `read_yaml`.
struct Refused {
  Place place;
  std::string message;
};

// Builds the tree from the parser's events. Depth is limited here, so nothing below recurses far.
class TreeBuilder final : public YAML::EventHandler {
 public:
  TreeBuilder(std::shared_ptr<const Source> source, FindingList& findings)
      : source_(std::move(source)),
        text_(without_byte_order_mark(source_->text)),
        findings_(findings) {}

  YamlNode root;

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    YamlNode node;
    node.place = place(mark);
    node.text = null_word(mark);
    place_value(std::move(node), anchor);
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const auto found = anchored_.find(anchor);
    if (found == anchored_.end()) {
      throw Refused{place(mark), "an alias inside its own anchor has no meaning"};
    }
    spend(found->second.nodes, found->second.bytes, mark);
    place_value(found->second.node, 0);
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    check_tag(mark, tag);
    refuse_tab_before(mark);
    check_quotes(mark);
    if (value.find_first_of(std::string("\0\x01\x02", 3)) != std::string::npos) {
      throw Refused{place(mark), "a value contains one of the control characters U+0000 to U+0002"};
    }
    spend(1, value.size(), mark);
    const bool is_text = tag == "!" || tag == "tag:yaml.org,2002:str";
    place_value(scalar_node(value, place(mark), is_text), anchor);
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    open(mark, tag, anchor, YamlNode::Kind::list);
  }
  void OnSequenceEnd() override { close(); }

  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    open(mark, tag, anchor, YamlNode::Kind::map);
  }
  void OnMapEnd() override { close(); }

  // The innermost '{' or '[' that is open where the parser gave up.
  std::optional<Place> open_bracket() const {
    for (auto frame = frames_.rbegin(); frame != frames_.rend(); ++frame) {
      const Place& place = frame->node.place;
      const std::string_view line = line_of(text_, place.line);
      const auto column = static_cast<std::size_t>(place.column - 1);
      if (column < line.size() && (line[column] == '{' || line[column] == '[')) return place;
    }
    return std::nullopt;
  }

 private:
  struct Frame {
    YamlNode node;
    YAML::anchor_t anchor = 0;
    int nodes_before = 0;
    std::size_t bytes_before = 0;
    bool expects_value = false;
    std::string key;
    bool key_quoted = false;
    Place key_place;
    std::map<std::string, Place> keys;
    std::vector<YamlNode> merged;  // values of `<<`
  };
  struct Anchored {
    YamlNode node;
    int nodes = 0;
    std::size_t bytes = 0;
  };

  Place place(const YAML::Mark& mark) const {
    return Place{source_, mark.line + 1, mark.column + 1};
  }

  static std::size_t offset(const YAML::Mark& mark) {
    return static_cast<std::size_t>(std::max(mark.pos, 0));
  }

  void spend(int nodes, std::size_t bytes, const YAML::Mark& mark) {
    nodes_ += nodes;
    bytes_ += bytes;
    if (nodes_ > max_nodes || bytes_ > max_expanded_bytes) {
      throw Refused{place(mark), "the file expands to more than " + std::to_string(max_nodes) +
                                     " values or " + std::to_string(max_expanded_bytes >> 20) +
                                     " MiB"};
    }
  }

  void check_tag(const YAML::Mark& mark, const std::string& tag) const {
    const bool is_known = tag.empty() || tag == "?" || tag == "!";
    if (is_known || tag.starts_with("tag:yaml.org,2002:")) return;
    throw Refused{place(mark), "the tag " + quoted_text(tag) + " is not supported"};
  }

  // What stands for a null value where one is written; empty where there is none.
  std::string null_word(const YAML::Mark& mark) const {
    const std::string_view rest = text_.substr(std::min(offset(mark), text_.size()));
    for (const std::string_view word : {"~", "null", "Null", "NULL"}) {
      if (!rest.starts_with(word)) continue;
      const std::string_view after = rest.substr(word.size(), 1);
      if (after.empty() || is_made_of(after, " \t\r\n,}]")) return std::string(word);
    }
    return "";
  }

  // The parser ends an open quote where the text ends: all that follows would be one value, and
  // another job would run.
  void check_quotes(const YAML::Mark& mark) const {
    const auto found = quoted_text_at(text_, offset(mark));
    if (!found) return;
    const std::string quote(1, text_[found->begin]);
    const auto begin = [&] {
      return place_of(source_, found->begin + (source_->text.size() - text_.size()));
    };
    if (!found->closed) {
      throw Refused{begin(), "the quote " + quote +
                                 " that opens here is never closed; all that follows would "
                                 "belong to this value"};
    }
    const std::string key = key_within(text_.substr(found->begin, found->end - 1 - found->begin));
    if (key.empty()) return;
    findings_.add(Severity::warning, begin(), "",
                  "the value in " + quote +
                      " continues over several lines, and one of them begins "
                      "with " +
                      quoted_text(key + ':') + "; is a closing quote missing?");
  }

  void refuse_tab_before(const YAML::Mark& mark) const {
    if (mark.pos < mark.column || mark.column <= 0) return;
    const auto start = static_cast<std::size_t>(mark.pos - mark.column);
    const std::string_view indent =
        text_.substr(std::min(start, text_.size()), static_cast<std::size_t>(mark.column));
    const bool blank = indent.find_first_not_of(" \t") == std::string_view::npos;
    if (!blank || indent.find('\t') == std::string_view::npos) return;
    throw Refused{place(mark), "a tab is used for indentation; use spaces"};
  }

  void open(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
            YamlNode::Kind kind) {
    check_tag(mark, tag);
    if (static_cast<int>(frames_.size()) >= max_depth) {
      throw Refused{place(mark),
                    "values are nested deeper than " + std::to_string(max_depth) + " levels"};
    }
    Frame frame;
    frame.nodes_before = nodes_;
    frame.bytes_before = bytes_;
    spend(1, 0, mark);
    frame.node.kind = kind;
    frame.node.place = place(mark);
    frame.anchor = anchor;
    frames_.push_back(std::move(frame));
  }

  void close() {
    Frame frame = std::move(frames_.back());
    frames_.pop_back();
    for (const YamlNode& merged : frame.merged) merge(frame, merged);
    const int nodes = nodes_ - frame.nodes_before;
    const std::size_t bytes = bytes_ - frame.bytes_before;
    if (frame.anchor != 0) remember(frame.anchor, frame.node, nodes, bytes);
    place_value(std::move(frame.node), 0);
  }

  // The copy kept for aliases counts too: anchors on every level would multiply otherwise.
  void remember(YAML::anchor_t anchor, const YamlNode& node, int nodes, std::size_t bytes) {
    nodes_ += nodes;
    bytes_ += bytes;
    if (nodes_ > max_nodes || bytes_ > max_expanded_bytes) {
      throw Refused{node.place, "anchors and aliases expand to too many values"};
    }
    anchored_[anchor] = Anchored{node, nodes, bytes};
  }

  void merge(Frame& frame, const YamlNode& from) {
    if (from.kind == YamlNode::Kind::list) {
      for (const YamlNode& item : from.items) merge(frame, item);
      return;
    }
    if (from.kind != YamlNode::Kind::map) {
      findings_.add(Severity::error, from.place, "<<", "'<<' merges maps, got " + describe(from));
      return;
    }
    for (const Entry& entry : from.entries) {
      if (frame.keys.emplace(entry.key, entry.place).second) frame.node.entries.push_back(entry);
    }
  }

  void place_value(YamlNode node, YAML::anchor_t anchor) {
    if (anchor != 0) remember(anchor, node, 1, node.text.size());
    if (frames_.empty()) {
      root = std::move(node);
      return;
    }
    Frame& parent = frames_.back();
    if (parent.node.kind == YamlNode::Kind::list) {
      parent.node.items.push_back(std::move(node));
    } else if (parent.expects_value) {
      place_entry(parent, std::move(node));
    } else {
      place_key(parent, node);
    }
  }

  void place_key(Frame& parent, const YamlNode& node) {
    if (node.kind == YamlNode::Kind::list || node.kind == YamlNode::Kind::map) {
      throw Refused{node.place, "a key must be text, got " + describe(node)};
    }
    parent.key = node.kind == YamlNode::Kind::null ? "null" : node.text;
    parent.key_quoted = node.quoted;
    parent.key_place = node.place;
    parent.expects_value = true;
  }

  void place_entry(Frame& parent, YamlNode node) {
    parent.expects_value = false;
    if (node.kind == YamlNode::Kind::null) {
      // Only of a last line that is no `key:` at all does the parser say so.
      const bool no_colon =
          node.place.line == parent.key_place.line && node.place.column == parent.key_place.column;
      if (no_colon) throw Refused{node.place, "no ':' after " + quoted_text(parent.key)};
      node.place = parent.key_place;
    }
    if (parent.key == "<<" && !parent.key_quoted) {
      parent.merged.push_back(std::move(node));
      return;
    }
    const auto [first, added] = parent.keys.emplace(parent.key, parent.key_place);
    if (!added) {
      findings_.add(Severity::error, parent.key_place, parent.key,
                    "duplicate key " + quoted_text(parent.key) + ", first at " +
                        std::to_string(first->second.line) + ':' +
                        std::to_string(first->second.column));
      return;
    }
    parent.node.entries.push_back(Entry{parent.key, parent.key_place, std::move(node)});
  }

  std::shared_ptr<const Source> source_;
  std::string_view text_;  // of the source
  FindingList& findings_;
  std::vector<Frame> frames_;
  std::map<YAML::anchor_t, Anchored> anchored_;
  int nodes_ = 0;
  std::size_t bytes_ = 0;
};

// The library's wording for the mistakes people make, in ours.
std::string plain_words(const YAML::ParserException& error, std::string_view line) {
  const std::size_t indent = line.find_first_not_of(" \t");
  if (line.substr(0, indent).find('\t') != std::string_view::npos) {
    return "a tab is used for indentation; use spaces";
  }
  if (error.msg == YAML::ErrorMsg::MAP_VALUE) {
    return "not valid YAML: a key is not expected here; check the indentation, and put text that "
           "contains ': ' in quotes";
  }
  if (error.msg == YAML::ErrorMsg::END_OF_MAP && line.find(':') == line.npos) {
    return "not valid YAML: a key and ':' are expected here";
  }
  if (error.msg == YAML::ErrorMsg::END_OF_MAP || error.msg == YAML::ErrorMsg::END_OF_SEQ) {
    return "not valid YAML: the indentation does not fit the lines above";
  }
  return "not valid YAML: " + error.msg;
}

// `where`: the parser gave up there; below the text when it went on to its end.
std::string never_closed(const Place& bracket, std::string_view text, const YAML::Mark& where) {
  const bool is_map = line_of(text, bracket.line)[bracket.column - 1] == '{';
  const std::string opens = std::string("the '") + (is_map ? '{' : '[') + "' that opens here";
  if (where.line >= std::count(text.begin(), text.end(), '\n')) return opens + " is never closed";
  return opens + " has no ',' or '" + (is_map ? '}' : ']') + "' at line " +
         std::to_string(where.line + 1) + ", column " + std::to_string(where.column + 1) +
         ", where one is due";
}

// More unclosed brackets than any shell script in a `command` has; the parser keeps one token for
// each of them before it can give up.
constexpr int max_open_brackets = 1000;

std::string fault_at(std::string_view rest, std::size_t length) {
  const auto byte = static_cast<unsigned char>(rest.front());
  const bool control = byte < 0x20 && byte != '\t' && byte != '\n' && byte != '\r';
  if (byte == 0) return "the file contains a NUL byte; it is not a YAML text";
  if (control || byte == 0x7F) {
    return printed("the file contains the control character U+%04X", byte);
  }
  return length == 0 ? "the file is not UTF-8 text" : "";
}

bool is_blank(char c) {
  return white_space.find(c) != white_space.npos;
}

// Past a tag, an anchor and the blanks around them.
std::size_t past_properties(std::string_view text, std::size_t at) {
  for (bool in_property = false; at < text.size(); ++at) {
    const bool blank = is_blank(text[at]);
    if (!blank && !in_property && text[at] != '!' && text[at] != '&') break;
    in_property = !blank;
  }
  return at;
}

}  // namespace

std::optional<YamlNode> read_yaml(const std::shared_ptr<const Source>& source,
                                  FindingList& findings) {
  if (!check_yaml_text(source, findings)) return std::nullopt;
  const std::string_view text = without_byte_order_mark(source->text);
  // With a line end the parser hands out a last value whose quote is open instead of giving up.
  std::istringstream stream{std::string(text) + '\n'};
  TreeBuilder builder(source, findings);
  const auto refuse = [&](const Place& place, const std::string& message) {
    findings.add(Severity::error, place, "", message);
    return std::nullopt;
  };
  try {
    YAML::Parser parser(stream);
    const bool any = parser.HandleNextDocument(builder);
    TreeBuilder second(source, findings);
    if (any && parser.HandleNextDocument(second)) {
      return refuse(second.root.place.source ? second.root.place : Place{source, 0, 0},
                    "a second YAML document; a file holds one job");
    }
  } catch (const Refused& refused) {
    return refuse(refused.place, refused.message);
  } catch (const YAML::ParserException& error) {
    const bool is_open = error.msg == YAML::ErrorMsg::END_OF_MAP_FLOW ||
                         error.msg == YAML::ErrorMsg::END_OF_SEQ_FLOW;
    const auto bracket = is_open ? builder.open_bracket() : std::nullopt;
    if (bracket) return refuse(*bracket, never_closed(*bracket, text, error.mark));
    const bool placed = error.mark.line >= 0;
    const Place place{source, placed ? error.mark.line + 1 : 0, error.mark.column + 1};
    return refuse(place, plain_words(error, line_of(text, error.mark.line + 1)));
  } catch (const std::exception& error) {
    return refuse(Place{source, 0, 0}, std::string("not valid YAML: ") + error.what());
  }
  YamlNode& root = builder.root;
  if (root.kind == YamlNode::Kind::null) root.place = Place{source, 0, 0};
  return std::move(root);
}

Place place_of(const std::shared_ptr<const Source>& source, std::size_t offset) {
  const std::string_view before = std::string_view(source->text).substr(0, offset);
  const auto line = 1 + std::count(before.begin(), before.end(), '\n');
  const std::size_t newline = before.rfind('\n');
  const std::size_t column = newline == std::string_view::npos ? offset : offset - newline - 1;
  return Place{source, static_cast<int>(line), static_cast<int>(column) + 1};
}

std::optional<QuotedText> quoted_text_at(std::string_view text, std::size_t at) {
  at = past_properties(text, at);
  if (at >= text.size() || (text[at] != '"' && text[at] != '\'')) return std::nullopt;
  const char quote = text[at];
  for (std::size_t i = at + 1; i < text.size(); ++i) {
    const bool doubled = quote == '\'' && text.substr(i, 2) == "''";
    const bool escaped = quote == '"' && text[i] == '\\';
    if (doubled || escaped) {
      ++i;
    } else if (text[i] == quote) {
      return QuotedText{at, i + 1, true};
    }
  }
  return QuotedText{at, text.size(), false};
}

std::string key_within(std::string_view text) {
  for (std::size_t line = text.find('\n'); line != text.npos; line = text.find('\n', line + 1)) {
    const std::size_t begin = std::min(text.find_first_not_of(" \t", line + 1), text.size());
    std::size_t end = begin;
    while (end < text.size() && is_word_of(text.substr(end, 1), "_-.$")) ++end;
    const bool is_key = end > begin && end < text.size() && text[end] == ':' &&
                        (end + 1 == text.size() || is_blank(text[end + 1]));
    if (is_key) return std::string(text.substr(begin, end - begin));
  }
  return "";
}

std::string_view without_byte_order_mark(std::string_view text) {
  constexpr std::string_view mark = "\xEF\xBB\xBF";
  return text.starts_with(mark) ? text.substr(mark.size()) : text;
}

bool check_yaml_text(const std::shared_ptr<const Source>& source, FindingList& findings) {
  const std::string_view text = source->text;
  if (text.size() > max_file_bytes) {
    const std::string limit = std::to_string(max_file_bytes >> 20) + " MiB";
    findings.add(Severity::error, Place{source, 0, 0}, "", "the file is larger than " + limit);
    return false;
  }
  int open = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = utf8_length(text.substr(at));
    std::string fault = fault_at(text.substr(at), length);
    if (text[at] == '[' || text[at] == '{') ++open;
    if (text[at] == ']' || text[at] == '}') --open;
    if (open > max_open_brackets) fault = "brackets are nested too deeply";
    if (!fault.empty()) {
      findings.add(Severity::error, place_of(source, at), "", fault);
      return false;
    }
    at += length;
  }
  return true;
}

}  // namespace muster
