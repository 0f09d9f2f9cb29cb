#include <nlohmann/json.hpp>
#include <random>

#include "runtime/tokenize/text_blocks.h"
#include "runtime/tokenize/tokenizer.h"
#include "runtime/tokenize/tokenizer_file.h"
#include "tests/catch.h"

using namespace muster;

namespace {

using Words = std::vector<std::string>;

Words words_of(std::string_view text) {
  Words words;
  WordSplitter splitter(text);
  for (auto word = splitter.next(); !word.empty(); word = splitter.next()) words.emplace_back(word);
  return words;
}

std::string joined(const Words& words) {
  std::string text;
  for (const std::string& word : words) text += word;
  return text;
}

std::vector<std::uint32_t> encoded(const Tokenizer& tokenizer, std::string_view text) {
  std::vector<std::uint32_t> tokens;
  Encoder(tokenizer).encode(text, tokens);
  return tokens;
}

Tokenizer trained(std::string_view text, std::size_t vocabulary) {
  WordCounts words;
  words.add_text(text);
  return train_tokenizer(words, vocabulary);
}

std::string random_bytes(std::mt19937_64& random, std::size_t bytes, unsigned values) {
  std::string text;
  for (std::size_t i = 0; i < bytes; ++i) text.push_back(static_cast<char>(random() % values));
  return text;
}

constexpr const char* prose =
    "It was the best of times, it was the worst of times, it was the age of wisdom, it was the "
    "age of foolishness, it was the epoch of belief, it was the epoch of incredulity.\n";

}  // namespace

TEST_CASE("text is cut into words as GPT-2 cuts it") {
  CHECK(words_of("Hello world") == Words{"Hello", " world"});
  CHECK(words_of("it's we'll I'D") == Words{"it", "'s", " we", "'ll", " I", "'", "D"});
  CHECK(words_of("a1b22 33") == Words{"a", "1", "b", "22", " 33"});
  CHECK(words_of("x  y   z") == Words{"x", " ", " y", "  ", " z"});
  CHECK(words_of("a\n\nb\n") == Words{"a", "\n", "\n", "b", "\n"});
  CHECK(words_of("a \n") == Words{"a", " \n"});
  CHECK(words_of("f(x)!= 3;") == Words{"f", "(", "x", ")!=", " 3", ";"});
  CHECK(words_of("\xc3\x9c"
                 "ber \xd0\x94\xd0\xb0 \xe4\xb8\xad\xe6\x96\x87") ==
        Words{"\xc3\x9c"
              "ber",
              " \xd0\x94\xd0\xb0", " \xe4\xb8\xad\xe6\x96\x87"});
  CHECK(words_of("\xc2\xbd\xe2\x85\xa3") == Words{"\xc2\xbd\xe2\x85\xa3"});  // numbers
  CHECK(words_of("a\xc2\xa0"
                 "b") == Words{"a", "\xc2\xa0", "b"});  // white space
  CHECK(words_of(" \xf0\x9f\x98\x80!") == Words{" \xf0\x9f\x98\x80!"});
  CHECK(words_of("a\xff\xc3") == Words{"a", "\xff\xc3"});
  CHECK(words_of("a\xe0\x81\x81") == Words{"a", "\xe0\x81\x81"});  // an overlong A
  CHECK(words_of("   ") == Words{"   "});
  CHECK(words_of("").empty());
}

TEST_CASE("words joined are the text, whatever its bytes") {
  std::mt19937_64 random(1);
  for (int round = 0; round < 300; ++round) {
    const std::string text = random_bytes(random, random() % 200, 256);
    CHECK(joined(words_of(text)) == text);
  }
}

TEST_CASE("a text cut at a border has the words of the whole") {
  std::mt19937_64 random(2);
  for (int round = 0; round < 500; ++round) {
    std::string text;
    for (int i = 0; i < 30; ++i) {
      const char* const parts[] = {"a",  "bc", " ", "\n",           "\t",      "\r",
                                   "'s", "7",  "!", "\xe3\x80\x80", "\xc3\xa9"};
      text += parts[random() % 11];
    }
    const std::size_t cut = last_word_border(text);
    Words both = words_of(text.substr(0, cut));
    for (const std::string& word : words_of(text.substr(cut))) both.push_back(word);
    CHECK(both == words_of(text));
  }
  CHECK(last_word_border("one two three") == 7);
  CHECK(last_word_border("onetwothree") == 0);
  CHECK(last_word_border("one  ") == 3);
  CHECK(last_word_border("one\r\ntwo\r\n") == 8);
}

TEST_CASE("training joins the most frequent pair first, of equal ones that of the smaller tokens") {
  const Tokenizer tokenizer = trained("abab abab cdcd cdcd ab", 260);
  REQUIRE(tokenizer.vocabulary() == 260);
  const auto& parts = tokenizer.parts();
  // "ab" occurs five times, "cd" four times.
  CHECK(parts.merges[0] == TokenPair{'a', 'b'});
  CHECK(parts.tokens[256] == "ab");
  CHECK(parts.merges[1] == TokenPair{'c', 'd'});
  // Four pairs occur twice; the blank is the smallest token, "ab" the smaller one after it.
  CHECK(parts.merges[2] == TokenPair{' ', 256});
  CHECK(parts.tokens[259] == "<|endoftext|>");
  CHECK(tokenizer.end_of_document() == 259);
}

TEST_CASE("training agrees with counting all pairs anew before each merge") {
  std::mt19937_64 random(3);
  for (int round = 0; round < 20; ++round) {
    std::string text;
    for (int i = 0; i < 300; ++i) text.push_back("abc "[random() % 4]);
    const Tokenizer fast = trained(text, 280);
    // The slow way.
    std::vector<std::vector<std::string>> words;
    for (const std::string& word : words_of(text)) {
      words.emplace_back();
      for (const char byte : word) words.back().emplace_back(1, byte);
    }
    std::vector<std::string> tokens = Tokenizer::of_bytes().parts().tokens;
    std::vector<TokenPair> merges;
    const auto id = [&](const std::string& bytes) {
      return static_cast<std::uint32_t>(std::find(tokens.begin(), tokens.end(), bytes) -
                                        tokens.begin());
    };
    while (tokens.size() + 1 < 280) {
      std::map<TokenPair, int> counts;
      for (const auto& word : words) {
        for (std::size_t i = 0; i + 1 < word.size(); ++i) ++counts[{id(word[i]), id(word[i + 1])}];
      }
      TokenPair best{0, 0};
      int most = 1;
      for (const auto& [pair, count] : counts) {
        if (count > most) {
          most = count;
          best = pair;
        }
      }
      if (most < 2) break;
      const std::string left = tokens[best.first];
      const std::string right = tokens[best.second];
      if (std::find(merges.begin(), merges.end(), best) == merges.end()) merges.push_back(best);
      if (id(left + right) == tokens.size()) tokens.push_back(left + right);
      for (auto& word : words) {
        for (std::size_t i = 0; i + 1 < word.size(); ++i) {
          if (word[i] != left || word[i + 1] != right) continue;
          word[i] += word[i + 1];
          word.erase(word.begin() + static_cast<std::ptrdiff_t>(i) + 1);
        }
      }
    }
    CHECK(fast.parts().merges == merges);
    tokens.emplace_back("<|endoftext|>");
    CHECK(fast.parts().tokens == tokens);
  }
}

TEST_CASE("a text without pairs that occur twice gives a smaller vocabulary") {
  CHECK(trained("abc", 1000).vocabulary() == 257);
  CHECK(trained("", 1000).vocabulary() == 257);
}

TEST_CASE("any bytes come back from their tokens") {
  const Tokenizer tokenizer = trained(prose, 330);
  std::mt19937_64 random(4);
  for (int round = 0; round < 300; ++round) {
    std::string text = random_bytes(random, random() % 300, 256);
    text += std::string(prose).substr(random() % 80, random() % 80);
    CHECK(tokenizer.decode(encoded(tokenizer, text)) == text);
    CHECK(Tokenizer::of_bytes().decode(encoded(Tokenizer::of_bytes(), text)) == text);
  }
  CHECK(tokenizer.decode({'a', tokenizer.end_of_document(), 'b'}) == "ab");
  CHECK(encoded(tokenizer, prose).size() < std::string(prose).size() / 2);
  CHECK(encoded(Tokenizer::of_bytes(),
                "\xff"
                "a") == std::vector<std::uint32_t>{255, 'a'});
}

TEST_CASE("a word of any length is merged as a short one is, and soon") {
  const Tokenizer tokenizer = trained("aaaa aaaaaaaa abababab babaabba aabb", 275);
  std::mt19937_64 random(5);
  for (const std::size_t length : {2, 30, 48, 49, 60, 500}) {
    std::string word;
    for (std::size_t i = 0; i < length; ++i) word.push_back("ab"[random() % 2]);
    // Merging pair after pair by the list, as it is defined.
    std::vector<std::uint32_t> slow(word.begin(), word.end());
    while (true) {
      std::size_t best = tokenizer.parts().merges.size();
      std::size_t place = 0;
      for (std::size_t i = 0; i + 1 < slow.size(); ++i) {
        for (std::size_t rank = 0; rank < best; ++rank) {
          if (tokenizer.parts().merges[rank] != TokenPair{slow[i], slow[i + 1]}) continue;
          best = rank;
          place = i;
        }
      }
      if (best == tokenizer.parts().merges.size()) break;
      const std::string bytes =
          tokenizer.parts().tokens[slow[place]] + tokenizer.parts().tokens[slow[place + 1]];
      const auto& tokens = tokenizer.parts().tokens;
      slow[place] = static_cast<std::uint32_t>(std::find(tokens.begin(), tokens.end(), bytes) -
                                               tokens.begin());
      slow.erase(slow.begin() + static_cast<std::ptrdiff_t>(place) + 1);
    }
    CHECK(encoded(tokenizer, word) == slow);
  }
  const std::string endless(1 << 20, 'a');
  CHECK(tokenizer.decode(encoded(tokenizer, endless)) == endless);
}

TEST_CASE("a tokenizer comes back from its file") {
  for (const Tokenizer& tokenizer : {trained(prose, 330), Tokenizer::of_bytes()}) {
    const std::string text = format_tokenizer(tokenizer);
    const auto back = parse_tokenizer(text, "");
    REQUIRE(back);
    CHECK(back.value().parts().tokens == tokenizer.parts().tokens);
    CHECK(back.value().parts().merges == tokenizer.parts().merges);
    CHECK(back.value().parts().special == tokenizer.parts().special);
    CHECK(back.value().end_of_document() == tokenizer.end_of_document());
    CHECK(format_tokenizer(back.value()) == text);
  }
}

TEST_CASE("a tokenizer file of another tool is read, or refused with what it asks for") {
  using nlohmann::json;
  const json good = json::parse(format_tokenizer(trained(prose, 300)));
  const auto read = [](const json& file, const std::string& end = "") {
    return parse_tokenizer(file.dump(), end);
  };
  json newer = good;  // merges as lists, two special tokens, keys that say nothing about tokens
  for (json& merge : newer["model"]["merges"]) {
    const std::string both = merge;
    const std::size_t blank = both.find(' ');
    merge = json::array({both.substr(0, blank), both.substr(blank + 1)});
  }
  const std::uint32_t size = good["model"]["vocab"].size();
  newer["added_tokens"].push_back({{"id", size}, {"content", "</s>"}});
  newer["pre_tokenizer"].erase("use_regex");
  const auto changed = read(newer);
  REQUIRE(changed);
  CHECK(changed.value().vocabulary() == size + 1);
  CHECK(changed.value().end_of_document() == size - 1);
  CHECK(read(newer, "</s>").value().end_of_document() == size);

  const auto refused = [&](const char* pointer, const json& value, const std::string& why) {
    json bad = good;
    bad[json::json_pointer(pointer)] = value;
    const auto result = read(bad);
    REQUIRE_FALSE(result);
    CHECK_THAT(result.reason(), ContainsSubstring(why));
  };
  refused("/normalizer", {{"type", "NFC"}}, "normalizer");
  refused("/pre_tokenizer/type", "Whitespace", "pre_tokenizer");
  refused("/pre_tokenizer/add_prefix_space", true, "add_prefix_space");
  refused("/pre_tokenizer/use_regex", false, "use_regex");
  refused("/model/type", "Unigram", "model");
  refused("/model/dropout", 0.1, "dropout");
  refused("/model/ignore_merges", true, "ignore_merges");
  refused("/model/merges/0", "a", "merges");
  refused("/model/merges/0", "nothing like", "merges");
  refused("/model/vocab/!", 7, "is a duplicate");
  refused("/model/vocab/!", 70000, "vocab");
  refused("/added_tokens/0/content", "</s>", "--end-of-document");
  CHECK_FALSE(read(good, "</s>"));
  CHECK_FALSE(parse_tokenizer("", ""));
  CHECK_FALSE(parse_tokenizer("[]", ""));
}
