#include "cli/terminal/escape.h"

#include <algorithm>

#include "tests/catch.h"

using namespace muster;

namespace {

std::string filtered(const std::string& bytes, std::size_t piece) {
  TerminalFilter filter;
  std::string out;
  for (std::size_t at = 0; at < bytes.size(); at += piece) {
    filter.feed(std::string_view(bytes).substr(at, piece), out);
  }
  filter.finish(out);
  return out;
}

struct Sample {
  const char* bytes;
  const char* shown;
};

}  // namespace

TEST_CASE("the terminal filter shows text and colours and nothing else, however it is cut") {
  const Sample samples[] = {
      {"plain\ttext\n", "plain\ttext\n"},
      {"gr\xc3\xbc\xc3\x9f", "gr\xc3\xbc\xc3\x9f"},
      {"\x1b[31mred\x1b[0m", "\x1b[31mred\x1b[0m"},
      {"\x1b[2J\x1b[Hgone", "gone"},
      {"\x1b]0;title\x07!", "!"},
      {"\x1b]52;c;AAAA\x1b\\after", "after"},
      {"a\x1b"
       "cb",
       "ab"},
      {"\x1bP+q\x1b\\x", "x"},
      {"bad \xff\xfe end", "bad \xEF\xBF\xBD\xEF\xBF\xBD end"},
      {"cut \xe2\x82", "cut \xEF\xBF\xBD"},
      {"\xe2\x82"
       "A",
       "\xEF\xBF\xBD"
       "A"},
      {"10%\r20%\r\n", "10%\n20%\n"},
      {"bell\x07 back\x08", "bell back"},
      {"c1 \xc2\x9b"
       "31m",
       "c1 \xEF\xBF\xBD"
       "31m"},
      {"\x1b[>0;276;0c!", "!"},
  };
  for (const Sample& sample : samples) {
    for (std::size_t piece : {1, 2, 3, 100}) {
      CAPTURE(sample.shown, piece);
      CHECK(filtered(sample.bytes, piece) == sample.shown);
    }
  }
}

TEST_CASE("an endless control sequence does not grow the filter") {
  TerminalFilter filter;
  std::string out;
  filter.feed("\x1b[", out);
  for (int i = 0; i < 1000; ++i) filter.feed(std::string(1000, '1'), out);
  filter.feed("mtext", out);
  CHECK(out == "text");
}

TEST_CASE("text is cut at a column with an ellipsis") {
  CHECK(shortened("abcdef", 6) == "abcdef");
  CHECK(shortened("abcdef", 4) == "abc…");
  CHECK(shortened("日本語", 5) == "日本…");
  CHECK(shortened("日本語", 4) == "日…");
  CHECK(shortened("abc", 0) == "");
}

TEST_CASE("one line stays one line and reads in the order it is written in") {
  CHECK(one_line("a\nb\tc") == "a b c");
  CHECK(one_line("a\xE2\x80\xAE"
                 "b\xE2\x81\xA6"
                 "c") == "a?b?c");
  CHECK(one_line("\xE2\x80\xA6") == "\xE2\x80\xA6");
}

TEST_CASE("a screenful neither scrolls nor wraps, and says what it leaves out") {
  std::string text;
  for (int i = 1; i <= 30; ++i) text += "line " + std::to_string(i) + "\n";
  const std::string shown = screenful(text, 24, 60);
  CHECK(std::count(shown.begin(), shown.end(), '\n') == 23);
  CHECK(shown.starts_with("line 1\n"));
  CHECK(shown.ends_with("line 22\n… 8 more lines\n"));
  CHECK(screenful("a\nb\n", 24, 60) == "a\nb\n");
  CHECK(screenful(std::string(70, 'x') + "\n", 24, 60) == std::string(59, 'x') + "…\n");
  CHECK(screenful("\x1b[1mNAME\x1b[0m\n", 24, 3) == "\x1b[1mNAME\x1b[0m\n");
  std::string full;
  for (int i = 1; i <= 23; ++i) full += "x\n";
  CHECK(screenful(full, 24, 60) == full);
}
