// What is written reads as what it was made from, whatever the texts are.
#include "templates/yaml/node.h"

#include "templates/yaml/reader.h"
#include "tests/catch.h"

namespace muster {
namespace {

YamlNode text(const std::string& value) {
  return scalar_node(value, {}, true);
}

YamlNode list(std::vector<YamlNode> items) {
  YamlNode node;
  node.kind = YamlNode::Kind::list;
  node.items = std::move(items);
  return node;
}

YamlNode map(const std::vector<std::pair<std::string, YamlNode>>& entries) {
  YamlNode node;
  node.kind = YamlNode::Kind::map;
  for (const auto& [key, value] : entries) node.entries.push_back({key, {}, value});
  return node;
}

// JSON, in which a number and its digits as text differ; or why it cannot be read.
std::string read_again(const YamlNode& node) {
  auto source = std::make_shared<Source>();
  source->text = write_yaml(node);
  FindingList findings;
  const auto read = read_yaml(source, findings);
  if (read) return write_json(*read);
  return findings.take_sorted().front().message + " in:\n" + source->text;
}

TEST_CASE("text is read back as it was, as a value, in a list and as a key") {
  for (const std::string value :
       {"", " ", "plain", "a b", " begins with a blank\nand goes on", "  two\n blanks\n", "\n",
        "\nbegins with a line end", "ends with one\n", "ends with two\n\n", "\n\n", "a\n\n  b\n c",
        "blank line \n \nbetween", "\ttab\nand line", "a\tb\n", "- no list", "no: map", "a #b",
        "\"", "'", "\\", "a\"b\n", "{", "]", "&a", "*a", "!a", "%", "@", "|", ">", "?", "~", ".5",
        "-", "---", "...", "a:", ":a", "\x7f", "line\n\x7f", "\x1b[0m", "line\nand \x03", "a\rb\n",
        "\xC3\xA9\n\xE2\x82\xAC", "\xC2\x85",
        "a\xE2\x80\xA8" "b\n"}) {
    const std::string in_json = write_json(text(value));
    INFO(in_json);
    CHECK(read_again(text(value)) == in_json);
    CHECK(read_again(list({text(value), text("next")})) == "[" + in_json + ", \"next\"]");
    CHECK(read_again(map({{value, text(value)}, {"next", text("x")}})) ==
          "{" + in_json + ": " + in_json + ", \"next\": \"x\"}");
  }
}

TEST_CASE("text that looks like something else is in quotes, and what is no text is not") {
  // With what the reader of Azure ML takes for numbers and dates.
  for (const char* word : {"true", "no", "On", "1", "1e5", "null", "Null", "NULL", "0x1f", "0b11",
                           "1_000", "017", "2024-01-05", "0x_"}) {
    INFO(word);
    CHECK(write_yaml(text(word)) == '"' + std::string(word) + "\"\n");
    CHECK(write_yaml(scalar_node(word, {}, false)) == std::string(word) + "\n");
  }
  CHECK(write_yaml(map({{"1", text("a")}, {"$schema", text("b")}, {"$x", text("c")}})) ==
        "\"1\": a\n$schema: b\n\"$x\": c\n");
}

TEST_CASE("what ends a line for another reader of YAML is in quotes, by its number") {
  CHECK(write_yaml(text("a\nb\xC2\x85\xE2\x80\xA8\xE2\x80\xA9\xE2\x80\xAA")) ==
        "\"a\\nb\\u0085\\u2028\\u2029\xE2\x80\xAA\"\n");
}

TEST_CASE("a tree without values keeps its form at every depth") {
  CHECK(write_yaml({}) == "");
  for (const YamlNode& empty : {list({}), map({})}) {
    CHECK(read_again(empty) == write_json(empty));
    const YamlNode deep = map({{"a", list({empty, YamlNode(), list({empty})})}, {"b", empty}});
    CHECK(read_again(deep) == write_json(deep));
  }
}

TEST_CASE("in JSON only numbers and booleans that are no text stand bare") {
  YamlNode count = scalar_node("12", {}, false);
  CHECK(write_json(map({{"a", count}, {"b", text("12")}, {"c", scalar_node("true", {}, false)},
                        {"d", text("true")}, {"e", YamlNode()}, {"f\"", text("x\ny\t\x03")}})) ==
        R"({"a": 12, "b": "12", "c": true, "d": "true", "e": null, "f\"": "x\ny\t\u0003"})");
}

}  // namespace
}  // namespace muster
