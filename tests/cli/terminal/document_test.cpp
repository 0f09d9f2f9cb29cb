#include "cli/terminal/document.h"

#include <nlohmann/json.hpp>

#include "tests/catch.h"

using namespace muster;

namespace {

std::string text_of(const Document& document, OutputFormat format, const std::string& query = "") {
  CommonOptions common;
  common.output = format;
  common.query = query;
  const auto text = document_text(document, common);
  return text ? *text : "error: " + text.error().message;
}

Document sample() {
  return Document::parse(R"({"name": "calm_kite", "exit_code": null, "on": "no", "tags": {},
    "attempts": [{"number": 0, "nodes": ["a", "b"]}, {"number": 1, "nodes": []}]})");
}

}  // namespace

TEST_CASE("JSON keeps the order of keys and survives bytes that are no text") {
  CHECK(text_of(Document{{"b", 1}, {"a", "\xff"}}, OutputFormat::json) ==
        "{\n  \"b\": 1,\n  \"a\": \"\xEF\xBF\xBD\"\n}\n");
}

TEST_CASE("no form of a result carries control characters to a terminal") {
  const Document document{{"a", "x\x1b[2J\x7f\xC2\x9B y\xC2\xA9"}};
  CHECK(text_of(document, OutputFormat::json) ==
        "{\n  \"a\": \"x\\u001b[2J\\u007f\\u009b y\xC2\xA9\"\n}\n");
  CHECK(text_of(document, OutputFormat::yaml) == "a: \"x\\u001b[2J\\u007f\\u009b y\xC2\xA9\"\n");
  CHECK(text_of(document, OutputFormat::tsv) == "x?[2J?? y\xC2\xA9\n");
}

TEST_CASE("YAML quotes what could be read as something else") {
  CHECK(text_of(sample(), OutputFormat::yaml) ==
        "name: calm_kite\n"
        "exit_code: null\n"
        "\"on\": \"no\"\n"
        "tags: {}\n"
        "attempts:\n"
        "  -\n"
        "    number: 0\n"
        "    nodes:\n"
        "      - a\n"
        "      - b\n"
        "  -\n"
        "    number: 1\n"
        "    nodes: []\n");
}

TEST_CASE("tab-separated values have one line for each item") {
  CHECK(text_of(Document::parse(R"([{"a": "x\ty", "b": 1}, {"a": null, "b": [2]}])"),
                OutputFormat::tsv) == "x y\t1\n\t[2]\n");
}

TEST_CASE("a query chooses the part that is printed") {
  CHECK(text_of(sample(), OutputFormat::tsv, "name") == "calm_kite\n");
  CHECK(text_of(sample(), OutputFormat::table, "attempts[0].nodes.1") == "b\n");
  CHECK(text_of(sample(), OutputFormat::json, "attempts.1.nodes") == "[]\n");
  CHECK(text_of(sample(), OutputFormat::json, "attempts[2]") == "null\n");
  CHECK_THAT(text_of(sample(), OutputFormat::json, "attempts["), ContainsSubstring("expected"));
}

TEST_CASE("none prints nothing") {
  CHECK(text_of(sample(), OutputFormat::none).empty());
}

TEST_CASE("a queried part that has keys is a table with a header, other parts are bare values") {
  CHECK(text_of(sample(), OutputFormat::table,
                "attempts[].{attempt_number: number, on: nodes[0]}") ==
        "ATTEMPT NUMBER  ON\n0               a\n1               -\n");
  CHECK(text_of(sample(), OutputFormat::table, "{job: name}") == "JOB\ncalm_kite\n");
  CHECK(text_of(sample(), OutputFormat::table, "name") == "calm_kite\n");
  CHECK(text_of(sample(), OutputFormat::table, "attempts[].number") == "0\n1\n");
  CHECK(text_of(sample(), OutputFormat::tsv, "attempts[].{n: number}") == "0\n1\n");
}
