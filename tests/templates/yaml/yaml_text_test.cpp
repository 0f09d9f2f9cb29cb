// What is said of a text before the parser has it, and of quotes that it lets pass.
#include "templates/yaml/reader.h"

#include "templates/yaml/reader.h"
#include "tests/catch.h"

namespace muster {
namespace {

std::shared_ptr<const Source> source_of(const std::string& text) {
  auto source = std::make_shared<Source>();
  source->text = text;
  return source;
}

// "line:column: message" of the one finding; empty where there is none.
std::string fault_of(const std::string& text) {
  FindingList findings;
  const bool fine = check_yaml_text(source_of(text), findings);
  const auto found = findings.take_sorted();
  CHECK(found.size() == (fine ? 0 : 1));
  if (found.empty()) return "";
  return std::to_string(found[0].line) + ":" + std::to_string(found[0].column) + ": " +
         found[0].message;
}

TEST_CASE("a text that no parser should see is refused at the byte that is wrong") {
  CHECK(fault_of("a: \xC3\xA9\t\r\n[{}]\n") == "");
  CHECK(fault_of(std::string("a: 1\nb\0", 7)) ==
        "2:2: the file contains a NUL byte; it is not a YAML text");
  CHECK(fault_of("a\x1b") == "1:2: the file contains the control character U+001B");
  CHECK(fault_of("\x7f") == "1:1: the file contains the control character U+007F");
  CHECK(fault_of("a: \xFF") == "1:4: the file is not UTF-8 text");
  CHECK(fault_of(std::string(1000, '[')) == "");
  CHECK(fault_of(std::string(500, '[') + std::string(501, '{')) ==
        "1:1001: brackets are nested too deeply");
  std::string many;
  for (int i = 0; i < 2000; ++i) many += "[{}]";
  CHECK(fault_of(many) == "");
  CHECK(fault_of(std::string(max_file_bytes, 'x')) == "");
  CHECK(fault_of(std::string(max_file_bytes + 1, 'x')) == "0:0: the file is larger than 1 MiB");
}

TEST_CASE("a value in quotes ends at its own quote") {
  const auto end_of = [](const std::string& text, std::size_t at = 0) {
    const auto found = quoted_text_at(text, at);
    if (!found) return std::string("none");
    return std::to_string(found->begin) + "-" + std::to_string(found->end) +
           (found->closed ? "" : " open");
  };
  CHECK(end_of("'a' b") == "0-3");
  CHECK(end_of("x: \"a\"", 3) == "3-6");
  CHECK(end_of("'it''s'") == "0-7");
  CHECK(end_of("'it''s") == "0-6 open");
  CHECK(end_of("'a\\'") == "0-4");  // no escape in single quotes
  CHECK(end_of("\"a\\\"b\"") == "0-6");
  CHECK(end_of("\"a\\\\\" b\"") == "0-5");
  CHECK(end_of("\"a''\"") == "0-5");
  CHECK(end_of("\"a\\") == "0-3 open");
  CHECK(end_of("!!str &anchor 'a'") == "14-17");
  CHECK(end_of("& \n'a'") == "3-6");
  CHECK(end_of("plain 'a'") == "none");
  CHECK(end_of("!tag") == "none");
  CHECK(end_of("") == "none");
}

TEST_CASE("a key on a later line of a text is found as after a forgotten quote") {
  CHECK(key_within("a: b") == "");
  CHECK(key_within("x\ncommand: y") == "command");
  CHECK(key_within("x\n\t  a-b.c_1$D:\n") == "a-b.c_1$D");
  CHECK(key_within("x\nno key\nhttp://a\nkey:") == "key");
  CHECK(key_within("x\n: y") == "");
  CHECK(key_within("x\n- a: b") == "");
  CHECK(key_within("x\nkey\n") == "");
  CHECK(key_within("x\n") == "");
}

TEST_CASE("places count from one, by lines and bytes") {
  const auto source = source_of("ab\n\ncd");
  const auto at = [&](std::size_t offset) {
    const Place place = place_of(source, offset);
    return std::to_string(place.line) + ":" + std::to_string(place.column);
  };
  CHECK(at(0) == "1:1");
  CHECK(at(2) == "1:3");
  CHECK(at(3) == "2:1");
  CHECK(at(4) == "3:1");
  CHECK(at(6) == "3:3");
  CHECK(without_byte_order_mark("\xEF\xBB\xBF" "a") == "a");
  CHECK(without_byte_order_mark("\xEF\xBB") == "\xEF\xBB");
}

}  // namespace
}  // namespace muster
